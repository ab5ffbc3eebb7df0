package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gregor-broker/gregor/compat/harness"
)

// insideNetwork names the variable that says to the test binary that it runs in namespaces of its own.
const insideNetwork = "GREGOR_COMPAT_NETWORK"

// network is a bridge in a network namespace that the test has to itself. The namespace holds the test, its clients and ZooKeeper, at
// 10.213.0.254, and broker i lives in another one, at 10.213.0.i.
type network struct {
	holders []*exec.Cmd // processes that keep the brokers' namespaces; broker i+1
}

func address(id int) string { return fmt.Sprint("10.213.0.", id) }

const hostAddress = "10.213.0.254"

// TestNetworkCuts cuts brokers off by the routes of their own network namespaces: between brokers, to ZooKeeper, both ways and one way. The
// test runs itself again, in a user and network namespace of its own, so that it needs no privilege and leaves nothing.
func TestNetworkCuts(t *testing.T) {
	harness.NeedCluster(t)
	if os.Getenv(insideNetwork) != "" {
		cutNetwork(t)
		return
	}
	for _, program := range []string{"ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("network cuts are left out: %v", err)
		}
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "--", "sh", "-c",
		"ip link add br0 type bridge && unshare --net true").CombinedOutput(); err != nil {
		t.Skipf("network cuts are left out, as namespaces are not permitted here: %v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNetworkCuts$", "-test.v", "-test.timeout", "15m")
	cmd.Env = append(os.Environ(), insideNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	t.Logf("in namespaces of its own:\n%s", out)
	if err != nil {
		t.Errorf("%v", err)
	}
}

// command runs a program and fails the test when that fails.
func command(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

func ip(t *testing.T, line string, args ...any) {
	t.Helper()
	command(t, append([]string{"ip"}, strings.Fields(fmt.Sprintf(line, args...))...)...)
}

func newNetwork(t *testing.T, brokers int) *network {
	t.Helper()
	n := &network{}
	ip(t, "link set lo up")
	ip(t, "link add br0 type bridge")
	ip(t, "addr add %s/24 dev br0", hostAddress)
	ip(t, "link set br0 up")
	for id := 1; id <= brokers; id++ {
		holder := exec.Command("unshare", "--net", "--", "sleep", "infinity")
		holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = holder.Process.Kill()
			_ = holder.Wait()
		})
		n.holders = append(n.holders, holder)
		own, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, limit, func() error { // the holder must have left ours
			its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid))
			if err == nil && its == own {
				err = errTryAgain
			}
			return err
		})
		ip(t, "link add v%d type veth peer name eth0 netns %d", id, holder.Process.Pid)
		ip(t, "link set v%d master br0 up", id)
		n.at(t, id, "link set lo up")
		n.at(t, id, "addr add %s/24 dev eth0", address(id))
		n.at(t, id, "link set eth0 up")
	}
	return n
}

// enter returns the words that run a command where a broker lives.
func (n *network) enter(id int) []string {
	return []string{"nsenter", "--net=/proc/" + strconv.Itoa(n.holders[id-1].Process.Pid) + "/ns/net", "--"}
}

// at runs ip where a broker lives.
func (n *network) at(t *testing.T, id int, line string, args ...any) {
	t.Helper()
	command(t, append(append(n.enter(id), "ip"), strings.Fields(fmt.Sprintf(line, args...))...)...)
}

// cut drops what a broker sends to an address.
func (n *network) cut(t *testing.T, id int, to string) {
	t.Helper()
	n.at(t, id, "route replace blackhole %s/32", to)
}

// mend undoes all cuts.
func (n *network) mend(t *testing.T) {
	t.Helper()
	for id := range n.holders {
		n.at(t, id+1, "route flush type blackhole")
	}
}

func cutNetwork(t *testing.T) {
	n := newNetwork(t, 3)
	c := harness.StartCluster(t, harness.ClusterOptions{
		ZooKeeperHost: hostAddress,
		Place:         func(id int) (string, []string) { return address(id), n.enter(id) },
		Props: map[string]string{
			"zookeeper.session.timeout.ms": strconv.FormatInt(campaignSession.Milliseconds(), 10),
			"replica.lag.time.max.ms":      "3000",
		},
	})
	k := startCampaign(t, c, seed(t))
	alone := func(id int) {
		for _, to := range []string{hostAddress, address(id%3 + 1), address((id+1)%3 + 1)} {
			n.cut(t, id, to)
		}
	}
	// The controller and two brokers that are not.
	for _, f := range []struct {
		name   string
		serves bool // what needs the controller and cannot reach it waits: members in sync cannot be dropped
		cut    func(controller, one, other int)
	}{
		{"two brokers do not hear each other", true, func(_, one, other int) {
			n.cut(t, one, address(other))
			n.cut(t, other, address(one))
		}},
		{"a broker is not heard by another", true, func(_, one, other int) { n.cut(t, one, address(other)) }},
		{"a broker and the controller do not hear each other", false, func(controller, one, _ int) {
			n.cut(t, one, address(controller))
			n.cut(t, controller, address(one))
		}},
		{"the controller is heard by no broker", false, func(controller, one, other int) {
			n.cut(t, controller, address(one))
			n.cut(t, controller, address(other))
		}},
		{"a broker is not heard by ZooKeeper and clients", true, func(_, one, _ int) { n.cut(t, one, hostAddress) }},
		{"a broker is heard by nobody", true, func(_, one, _ int) { alone(one) }},
		{"the controller is heard by nobody", true, func(controller, _, _ int) { alone(controller) }},
	} {
		k.inflict(t, fault{serves: f.serves, lasts: longer, mend: n.mend, strike: func(t *testing.T, k *campaign) string {
			controller := c.Controller(t)
			one, other := k.others(controller)
			f.cut(controller, one, other)
			return fmt.Sprintf("%s (controller %d, %d, %d)", f.name, controller, one, other)
		}})
	}
	k.judge(t)
}
