package cli

import (
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Compression reads a codec's name.
func Compression(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none", "uncompressed":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), Usagef("--compression %s: want none, gzip, snappy, lz4 or zstd", name)
}

// Acks reads a number of acknowledgements. Only acks=all can be idempotent.
func Acks(text string) ([]kgo.Opt, error) {
	switch text {
	case "all", "-1":
		return []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())}, nil
	case "1":
		return []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}, nil
	case "0":
		return []kgo.Opt{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()}, nil
	}
	return nil, Usagef("--acks %s: want all, 1 or 0", text)
}

// CompleteProducer proposes values for the flags --compression and --acks.
func CompleteProducer(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions(codecNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("acks", cobra.FixedCompletions([]string{"all", "1", "0"}, cobra.ShellCompDirectiveNoFileComp))
}
