// Package kafkapython runs the integration tests of kafka-python's source package against the broker.
package kafkapython

import (
	_ "embed"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
	"github.com/gregor-broker/gregor/compat/suite"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	limit = 10 * time.Minute
	tests = "test/integration" // in the package

	// The newest broker that this client knows. It takes newer ones for it.
	brokerVersion = "4.3"
)

//go:embed service.py
var service []byte

// TestKafkaPython runs the tests that a broker given by its address suffices for.
func TestKafkaPython(t *testing.T) {
	harness.Need(t, "python")
	table := suite.Load(t, "kafka-python")
	b := harness.Start(t, harness.Options{AdvertisedHost: "localhost", Props: map[string]string{
		"broker.id":                        "0",
		"node.id":                          "0",
		"auto.create.topics.enable":        "true",
		"num.partitions":                   "4",
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "500",
		"offsets.topic.num.partitions":     "5",
	}})
	dir := unpack(t, table.Version)
	suite.Run(t, table, nil, func(t *testing.T, only, without []string) map[string]suite.Verdict {
		return pytest(t, dir, b.Addr, only, without)
	})
}

// unpack unpacks the source package, which compat/run/install fetched and pip checked, into a temporary folder. It lacks two files.
func unpack(t *testing.T, version string) string {
	t.Helper()
	name := "kafka_python-" + version
	archive := filepath.Join(harness.Cache(), "sdists", name+".tar.gz")
	parent := t.TempDir()
	if out := harness.Command(t, limit, "", nil, "tar", "-xzf", archive, "-C", parent); out.Code != 0 {
		t.Fatalf("unpack %s: %s", archive, out)
	}
	dir := filepath.Join(parent, name)
	for path, text := range map[string][]byte{"test/__init__.py": nil, "test/service.py": service} {
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pytest runs tests. Their names are file::test, or file::class::test, without folder and ending; that of a file means all in it.
func pytest(t *testing.T, dir, addr string, only, without []string) map[string]suite.Verdict {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.xml")
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no", "--junitxml=" + report}
	for _, name := range without {
		args = append(args, "--deselect="+id(name))
	}
	for _, name := range only {
		args = append(args, id(name))
	}
	if len(only) == 0 {
		args = append(args, tests)
	}
	out := harness.CommandIn(t, limit, dir, []string{
		"KAFKA_URI=kafka://" + addr, "KAFKA_VERSION=" + brokerVersion,
		"KAFKA_ROOT=" + dir, // there must be such a folder
	}, filepath.Join(harness.Cache(), "venv", "bin", "python"), args...)
	text, err := os.ReadFile(report)
	if err != nil || out.Code > 1 { // 1: tests failed
		t.Fatalf("pytest ended with %d (%v):\n%s", out.Code, err, out)
	}
	return parse(t, text)
}

func id(name string) string {
	file, test, _ := strings.Cut(name, "::")
	if test != "" {
		test = "::" + test
	}
	return tests + "/" + file + ".py" + test
}

// parse reads pytest's report.
func parse(t *testing.T, text []byte) map[string]suite.Verdict {
	t.Helper()
	type trouble struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var report struct {
		Cases []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			Time    float64  `xml:"time,attr"`
			Failure *trouble `xml:"failure"`
			Error   *trouble `xml:"error"`
			Skipped *trouble `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]suite.Verdict{}
	for _, c := range report.Cases {
		class := strings.TrimPrefix(c.Class, strings.ReplaceAll(tests, "/", ".")+".")
		name := strings.ReplaceAll(class, ".", "::") + "::" + c.Name
		v := suite.Verdict{Action: "pass", Seconds: c.Time}
		switch {
		case c.Failure != nil:
			v.Action, v.Output = "fail", c.Failure.Message+"\n"+c.Failure.Text
		case c.Error != nil:
			v.Action, v.Output = "fail", c.Error.Message+"\n"+c.Error.Text
		case c.Skipped != nil:
			v.Action, v.Output = "skip", c.Skipped.Message
		}
		verdicts[name] = v
	}
	return verdicts
}
