package sarama

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// The suite stops and starts brokers and reads their logs with "docker compose stop|start|logs kafka-N". A link of that name to this very program stands in
// for docker: it passes its arguments on to the test, which owns the brokers.

// dockerVariable holds the address of the test.
const dockerVariable = "GREGOR_SUITE_DOCKER"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "docker" {
		os.Exit(docker())
	}
	harness.Main(m)
}

func docker() int {
	answer, err := http.PostForm(os.Getenv(dockerVariable), url.Values{"args": os.Args[1:]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer answer.Body.Close()
	_, _ = io.Copy(os.Stdout, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// standInForDocker returns the environment in which "docker" stops and starts brokers of the cluster.
func standInForDocker(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "docker")); err != nil {
		t.Fatal(err)
	}
	var one sync.Mutex // a cluster's methods are for one goroutine
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		err := r.ParseForm()
		if err == nil {
			err = compose(w, c, r.PostForm["args"])
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return []string{dockerVariable + "=" + server.URL, "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}
}

// compose does what "docker compose" is asked for here.
func compose(w io.Writer, c *harness.Cluster, args []string) error {
	if len(args) < 3 || args[0] != "compose" {
		return fmt.Errorf("docker %q is not known here", args)
	}
	service := args[len(args)-1]
	number, ok := strings.CutPrefix(service, "kafka-")
	id, err := strconv.Atoi(number)
	if !ok || err != nil || id < 1 || id > brokers {
		return fmt.Errorf("there is no service %q", service)
	}
	running := slices.Contains(c.Alive(), id)
	switch args[1] {
	case "stop":
		if running {
			return c.TryStop(id)
		}
	case "start":
		if !running {
			return c.TryRestart(id)
		}
	case "logs":
		_, err = io.WriteString(w, c.Broker(id).Log())
	default:
		return fmt.Errorf("docker compose %s is not known here", args[1])
	}
	return err
}
