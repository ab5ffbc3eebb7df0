package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/controller"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func extensionsCommand(c *cli.Connection) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "extensions [on|off]",
		Short: "Show or switch what a cluster on ZooKeeper has beyond Apache Kafka 3.9",
		Long: `Show or switch gregor.extensions, the setting of a whole cluster on ZooKeeper that brings groups of the consumer protocol (KIP-848),
transactions of version 2 and the versions of requests that Kafka 4.4 has.

It is refused unless every registered broker is a gregor that knows it, as Kafka 3.9 cannot read what is stored of such groups.
Switch it off before Kafka 3.9 brokers come. That is refused while groups of the consumer protocol have members; with --force their
members are thrown out.`,
		Example: `  gregor cluster extensions
  gregor cluster extensions on`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if force && !slices.Equal(args, []string{"off"}) {
				return cli.Usagef("--force is for off")
			}
			s, err := connect(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer s.Close()
			switch without := s.withoutZooKeeper(cmd.Context()); {
			case len(args) == 0 && without:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), hasAll)
				return err
			case without:
				return errors.New(hasAll)
			case len(args) == 0:
				return s.showExtensions(cmd.Context(), cmd.OutOrStdout())
			}
			if err := s.switchExtensions(cmd.Context(), args[0] == "on", force, false); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), controller.Extensions, "is", args[0])
			return s.awaitExtensions(cmd.Context(), args[0] == "on")
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "switch off although groups have members, which are thrown out")
	return cmd
}

const hasAll = controller.Extensions + " is for clusters on ZooKeeper; these brokers have none, and what it opens they serve without it " +
	"(kafka-features describe)"

// withoutZooKeeper says whether the brokers are of a cluster that has no ZooKeeper: they have features of their own.
func (s session) withoutZooKeeper(ctx context.Context) bool {
	answer, err := speaks(ctx, s.raw)
	if err != nil {
		return false
	}
	has := map[string]bool{}
	for _, f := range answer.SupportedFeatures {
		has[f.Name] = true
	}
	return has["group.version"] && !has[controller.Extensions]
}

// Brokers hear of a switch from ZooKeeper, a moment later.
const (
	heardWithin = 10 * time.Second
	askPause    = 50 * time.Millisecond
)

// awaitExtensions waits until every broker that answers goes by the setting as it is now.
func (s session) awaitExtensions(ctx context.Context, on bool) error {
	return awaitHeard(ctx, on, func() (map[int32]bool, error) {
		known, _, err := Extended(ctx, s.raw)
		return known, err
	})
}

// awaitHeard asks until each broker says that the setting is on, or off. An error may be of the switch itself, at which brokers close the
// connections of those who go on as before.
func awaitHeard(ctx context.Context, on bool, ask func() (map[int32]bool, error)) error {
	limit := time.After(heardWithin)
	for {
		known, err := ask()
		if err == nil {
			err = notHeard(known, on)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			return err
		}
	}
}

// notHeard is the error for brokers that do not go by the setting, nil if all do.
func notHeard(known map[int32]bool, on bool) error {
	var late []int32
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if known[id] != on {
			late = append(late, id)
		}
	}
	if len(late) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s not go by it yet; gregor doctor cluster says more", brokersWord(late)+" "+cli.IDs(late), does(late))
}

// showExtensions says for which brokers the setting is on, and whether it can be switched on.
func (s session) showExtensions(ctx context.Context, w io.Writer) error {
	known, _, err := Extended(ctx, s.raw)
	if err != nil {
		return err
	}
	var on, off []int32
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if known[id] {
			on = append(on, id)
		} else {
			off = append(off, id)
		}
	}
	switch {
	case len(on) == 0:
		fmt.Fprintln(w, controller.Extensions, "is off")
		if err := s.switchExtensions(ctx, true, false, true); err != nil {
			fmt.Fprintln(w, "it cannot be switched on now:", err)
			return nil
		}
		fmt.Fprintln(w, "it can be switched on: gregor cluster extensions on")
	case len(off) > 0:
		fmt.Fprintf(w, "%s is on for %s %s\n", controller.Extensions, brokersWord(on), cli.IDs(on))
		return fmt.Errorf("%s %s not know it and cannot read what the others store: stop it, or switch the setting off", brokersWord(off)+" "+cli.IDs(off), does(off))
	default:
		fmt.Fprintln(w, controller.Extensions, "is on")
	}
	return nil
}

func brokersWord(ids []int32) string {
	if len(ids) == 1 {
		return "broker"
	}
	return "brokers"
}

func does(ids []int32) string {
	if len(ids) == 1 {
		return "does"
	}
	return "do"
}

// Extended asks every broker of a cluster whether gregor.extensions is in force for it. silent are those that do not answer.
func Extended(ctx context.Context, cl *kgo.Client) (known map[int32]bool, silent map[int32]error, err error) {
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	known, silent = map[int32]bool{}, map[int32]error{}
	for _, b := range metadata.Brokers {
		asked.Go(func() {
			answer, err := speaks(ctx, cl.Broker(int(b.NodeID)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[b.NodeID] = err
				return
			}
			known[b.NodeID] = slices.ContainsFunc(answer.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
				return f.Name == controller.Extensions
			})
		})
	}
	asked.Wait()
	return known, silent, nil
}

// speaks asks a broker for its versions and features.
func speaks(ctx context.Context, broker kmsg.Requestor) (*kmsg.ApiVersionsResponse, error) {
	r := kmsg.NewPtrApiVersionsRequest()
	r.ClientSoftwareName, r.ClientSoftwareVersion = "gregor-cluster", "1"
	answer, err := r.RequestWith(ctx, broker)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	return answer, err
}

// switchExtensions has the controller switch the setting, or say whether it would. The error is in its words.
func (s session) switchExtensions(ctx context.Context, on, force, validateOnly bool) error {
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = controller.Extensions, 1, 1
	if !on {
		u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = 0, 2, true
	}
	if force {
		u.UpgradeType = 3
	}
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.FeatureUpdates, r.ValidateOnly = append(r.FeatureUpdates, u), validateOnly
	answer, err := r.RequestWith(ctx, s.raw)
	if err != nil {
		return err
	}
	err = refusal(answer.ErrorCode, answer.ErrorMessage)
	for _, result := range answer.Results {
		err = errors.Join(err, refusal(result.ErrorCode, result.ErrorMessage))
	}
	return err
}

func refusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return errors.New(*message)
	}
	return err
}
