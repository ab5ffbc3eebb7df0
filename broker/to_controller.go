package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/wire/errcode"
)

var errNoController = errcode.New(kerr.NotController, "no broker is known to be the controller")

// askController has the active controller do r, wherever it is, and waits for the answer.
func (b *Broker) askController(ctx context.Context, r kmsg.Request) (kmsg.Response, error) {
	switch id := b.services.Controller.ActiveID(); id {
	case -1:
		return nil, errNoController
	case b.services.BrokerID:
		return b.askOwnController(ctx, r)
	default:
		// The answer to a broker that shuts down comes when others lead: the controller says how long that may take.
		if _, waits := r.(*kmsg.ControlledShutdownRequest); !waits {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, b.controllerTimeout())
			defer cancel()
		}
		response := r.ResponseKind()
		err := b.peers.Send(ctx, id, b.clientID(), r, response)
		return response, err
	}
}

func (b *Broker) askOwnController(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	answered := make(chan kmsg.Response, 1)
	if !b.services.Controller.Ask(request, func(response kmsg.Response) { answered <- response }) {
		return nil, fmt.Errorf("%s is nothing to ask the controller on the same broker", kmsg.NameForKey(request.Key()))
	}
	select {
	case response := <-answered:
		return response, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forward hands r to the active controller on behalf of the controller package's part on this broker, which is not
// active. done is called once, on a goroutine that Stop waits for. It goes over a connection of its own, which the controller may keep waiting
// afterwards, if a quota says so, without keeping anything else waiting that this broker has to say.
func (b *Broker) forward(r kmsg.Request, done func(kmsg.Response, error)) {
	b.background.Go(func() {
		ctx, cancel := context.WithTimeout(b.running, b.peerTimeout())
		defer cancel()
		id := b.services.Controller.ActiveID()
		if id == -1 || id == b.services.BrokerID {
			done(b.askController(ctx, r))
			return
		}
		c := b.peers.Client(id, b.clientID(), b.peerTimeout())
		defer c.Close()
		response := r.ResponseKind()
		err := c.Do(ctx, r, response)
		done(response, err)
	})
}
