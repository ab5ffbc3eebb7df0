package tools

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

func TestConsole(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("console")
		p.createTopic(t, topic, 1)
		want := produceLines(t, p, tools, topic, 20)
		consume := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-console-consumer", append([]string{"--bootstrap-server", p.Addr, "--topic", topic, "--timeout-ms", "30000"}, args...)...)
		}
		wantLines(t, consume("--from-beginning", "--max-messages", "20"), want...)
		wantLines(t, consume("--partition", "0", "--offset", "17", "--max-messages", "3"), want[17:]...)

		group := name("console-group")
		wantLines(t, consume("--group", group, "--from-beginning", "--max-messages", "8"), want[:8]...)
		wantLines(t, consume("--group", group, "--from-beginning", "--max-messages", "12"), want[8:]...)

		// Keys, headers, null values and every codec.
		show, parse := "--property", "--property"
		if tools.Version == harness.V44 {
			show, parse = "--formatter-property", "--reader-property"
		}
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			topic := name("console-" + codec)
			p.createTopic(t, topic, 1)
			compression := []string{"--compression-codec", codec}
			tools.Feed(t, "h1:v1\tk1\tfirst\nh1:v2\tk2\tsecond\n", "kafka-console-producer", append([]string{
				"--bootstrap-server", p.Addr, "--topic", topic, parse, "parse.key=true", parse, "parse.headers=true",
			}, compression...)...)
			out := tools.Run(t, "kafka-console-consumer", "--bootstrap-server", p.Addr, "--topic", topic, "--from-beginning",
				"--max-messages", "2", "--timeout-ms", "30000", show, "print.key=true", show, "print.headers=true",
				show, "print.offset=true", show, "print.partition=true")
			wantLines(t, out, "Partition:0\tOffset:0\th1:v1\tk1\tfirst", "Partition:0\tOffset:1\th1:v2\tk2\tsecond")
		}
	})
}

// TestConsoleOptions: what the console clients take besides: patterns of topics, transactions, other types, records that cannot be read.
func TestConsoleOptions(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place, tools *harness.Tools) {
		topic := name("options")
		p.createTopic(t, topic, 1)
		producer, consumer, reader := "--producer-property", "--consumer-property", "--property"
		if tools.Version == harness.V44 {
			producer, consumer, reader = "--command-property", "--command-property", "--reader-property"
		}
		produce := func(stdin string, args ...string) harness.Output {
			return tools.Feed(t, stdin, "kafka-console-producer", append([]string{"--bootstrap-server", p.Addr, "--topic", topic}, args...)...)
		}
		consume := func(args ...string) harness.Output {
			return tools.Run(t, "kafka-console-consumer", append([]string{"--bootstrap-server", p.Addr, "--from-beginning", "--timeout-ms", "30000"}, args...)...)
		}
		produce("k1=a\nnone\nk2=NIL\n", "--sync", "--request-required-acks", "1", "--message-send-max-retries", "5", "--retry-backoff-ms", "50",
			"--request-timeout-ms", "20000", "--batch-size", "1000", "--timeout", "10", "--max-block-ms", "30000", "--max-memory-bytes", "1000000",
			"--metadata-expiry-ms", "100000", "--socket-buffer-size", "50000", producer, "client.id=console",
			"--reader-config", input(t, "parse.key=true\n"), reader, "key.separator==", reader, "ignore.error=true", reader, "null.marker=NIL")
		show := "--property"
		if tools.Version == harness.V44 {
			show = "--formatter-property"
		}
		wantLines(t, consume("--include", "^"+topic+"$", "--max-messages", "3", "--formatter-config", input(t, "print.key=true\n"), show, "null.literal=nothing", show, "key.separator=>",
			show, "print.timestamp=false", consumer, "fetch.max.bytes=1000"), "k1>a", "nothing>none", "k2>nothing")
		events := consume("--topic", topic, "--max-messages", "1", "--enable-systest-events")
		wantMatch(t, events, `^shutdown_complete$`)

		// What a transaction wrote that did not end well is read unless committed records are asked for.
		open := openTransaction(t, p, topic, name("console-txn"))
		if err := open.EndTransaction(harness.Context(t, limit), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		produce("after\n")
		last := func(isolation string) harness.Output {
			return consume("--topic", topic, "--max-messages", "4", "--isolation-level", isolation)
		}
		wantMatch(t, last("read_committed"), `^after$`)
		wantMatch(t, last("read_uncommitted"), `^open$`)

		const of = "org.apache.kafka.common.serialization."
		one := []string{"--topic", topic, "--max-messages", "1", "--value-deserializer"}
		wantMatch(t, consume(append(one, of+"BytesDeserializer", "--key-deserializer", of+"StringDeserializer")...), `^a$`)
		if out := consume("--topic", topic, "--max-messages", "3", "--skip-message-on-error", "--value-deserializer", of+"IntegerDeserializer"); strings.Contains(out.Stdout, "after") {
			t.Errorf("a text is an integer:\n%s", out)
		}
	})
}
