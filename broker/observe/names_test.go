package observe

import (
	"bufio"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lines returns those of a file of testdata that are no comments.
func lines(t *testing.T, file string) (found []string) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' {
			found = append(found, line)
		}
	}
	return found
}

// kafkaNames are those that the JMX exporter shows of a Kafka, whichever version.
func kafkaNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, line := range slices.Concat(lines(t, "kafka-3.9.2.txt"), lines(t, "kafka-4.4.0.txt")) {
		name, _, _ := strings.Cut(line, " ")
		names[name] = true
	}
	return names
}

// elsewhere are the names of ours that no rule of the exporter's example makes.
var elsewhere = map[string]bool{
	// The exporter's own form for kafka.server<type=socket-server-metrics, clientSoftwareName=…, …><>connections.
	"kafka_server_socket_server_metrics_connections": true,
}

// TestNames: what has a name of Kafka's is what the JMX exporter shows of a live Kafka, what it shows and we do not has a reason,
// and all that we show is described. With which labels, TestMetricNames of compat/tools says.
func TestNames(t *testing.T) {
	kafka := kafkaNames(t)
	valid := regexp.MustCompile(`^(kafka|gregor)_[a-z0-9_]+$`)
	for name, text := range help {
		if !valid.MatchString(name) || text == "" {
			t.Errorf("%s: %q", name, text)
		}
		if strings.HasPrefix(name, "kafka_") && !kafka[name] && !elsewhere[name] {
			t.Errorf("%s is no name of a metric of Kafka's", name)
		}
		delete(kafka, name)
	}
	for _, line := range lines(t, "not-shown.txt") {
		pattern, reason, _ := strings.Cut(line, " ")
		found := false
		for name := range kafka {
			if match, err := path.Match(pattern, name); err != nil {
				t.Fatalf("%s: %v", pattern, err)
			} else if match {
				found = true
				delete(kafka, name)
			}
		}
		if !found || strings.TrimSpace(reason) == "" {
			t.Errorf("%s (%q) says nothing about any name that is left", pattern, reason)
		}
	}
	for name := range kafka {
		t.Errorf("%s is not shown, and nobody says why", name)
	}
}

// TestRequestNames: requests are called what Kafka calls them.
func TestRequestNames(t *testing.T) {
	kafka := lines(t, "requests.txt")
	for key := int16(-2); key <= kmsg.MaxKey; key++ {
		if key >= 0 && kmsg.Key(key).Name() == "Unknown" {
			continue
		}
		if name := apiName(key); !slices.Contains(kafka, name) {
			t.Errorf("%d is called %s", key, name)
		}
	}
}
