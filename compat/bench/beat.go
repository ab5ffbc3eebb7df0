//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beatCommand is the word that makes this program a member that sends heartbeats: in a process of its own, so that it does not wait
// behind the hundreds of goroutines whose rebalance it watches.
const beatCommand = "beat"

// beatMain joins a group, says so, and sends heartbeats, each a little after the last was answered, until its input ends. Then it
// prints when each was sent and how long its answer took, in nanoseconds.
func beatMain(args []string) error {
	c, err := dial(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	j := &joiner{rawConn: c, group: "beating"}
	if err := j.join(); err != nil {
		return err
	}
	fmt.Println("joined")
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		close(over)
	}()
	beats, err := j.beat(over)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for _, b := range beats {
		fmt.Fprintln(out, b.begin.UnixNano(), b.end.Sub(b.begin).Nanoseconds())
	}
	return out.Flush()
}

// beat sends heartbeats until told to stop.
func (j *joiner) beat(over chan struct{}) (beats []span, err error) {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation = j.group, j.member, j.generation
	for {
		select {
		case <-over:
			return beats, nil
		default:
		}
		s := span{begin: time.Now()}
		answer, err := ask(j.rawConn, r, 4, kmsg.NewPtrHeartbeatResponse())
		s.end = time.Now()
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		if err != nil {
			return nil, err
		}
		beats = append(beats, s)
		time.Sleep(time.Millisecond)
	}
}

// beating is such a process.
type beating struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startBeating(addr string) (*beating, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &beating{cmd: exec.Command(self, beatCommand, addr)}
	b.cmd.Stderr = os.Stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := b.out.ReadString('\n'); err != nil {
		b.kill()
		return nil, fmt.Errorf("no member sends heartbeats: %w", err)
	}
	return b, nil
}

// stop ends the heartbeats and returns how long those took that were on their way in one of the spans.
func (b *beating) stop(spans []span) (took []time.Duration, err error) {
	if err := b.in.Close(); err != nil {
		return nil, err
	}
	for {
		var begin, n int64
		_, err := fmt.Fscanln(b.out, &begin, &n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			if begin < s.end.UnixNano() && begin+n > s.begin.UnixNano() {
				took = append(took, time.Duration(n))
			}
		}
	}
	if len(took) == 0 {
		return nil, errors.New("no heartbeat was on its way during a rebalance")
	}
	return took, nil
}

func (b *beating) kill() {
	_ = b.cmd.Process.Kill() // it may have ended
	_ = b.cmd.Wait()         // likewise
}
