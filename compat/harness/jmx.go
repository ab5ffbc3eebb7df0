package harness

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// JMXEnv is what has a JVM broker show its metrics over JMX, at a port of 127.0.0.1.
func JMXEnv(port int) []string {
	const property = " -Dcom.sun.management.jmxremote"
	return []string{"JAVA_TOOL_OPTIONS=-Djava.rmi.server.hostname=127.0.0.1" + property + ".host=127.0.0.1" + property + ".authenticate=false" +
		property + ".ssl=false" + fmt.Sprintf("%s.port=%d%s.rmi.port=%d", property, port, property, port)}
}

// jmxValue is a line of JmxTool: bean, attribute, number.
var jmxValue = regexp.MustCompile(`(?m)^(.+):([\w-]+)=([-.\dE]+)$`)

// JMX reads an attribute of MBeans with the JmxTool of the broker's own version. Those that there are not are left out.
func (b *Broker) JMX(t testing.TB, port int, attribute string, beans ...string) map[string]float64 {
	t.Helper()
	version := V44
	if b.Kind == Kafka39 {
		version = V39
	}
	args := []string{"-cp", filepath.Join(KafkaHome(version), "lib", "*"), "org.apache.kafka.tools.JmxTool", "--jmx-url",
		fmt.Sprintf("service:jmx:rmi:///jndi/rmi://127.0.0.1:%d/jmxrmi", port), "--one-time", "--report-format", "properties", "--attributes", attribute}
	for _, bean := range beans {
		args = append(args, "--object-name", bean)
	}
	out, err := exec.CommandContext(Context(t, toolLimit), Java(), args...).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("No matched attributes")) {
		t.Fatalf("JmxTool: %v\n%s", err, out)
	}
	values := map[string]float64{}
	for _, m := range jmxValue.FindAllStringSubmatch(string(out), -1) {
		if values[m[1]], err = strconv.ParseFloat(m[3], 64); err != nil {
			t.Fatal(err)
		}
	}
	return values
}
