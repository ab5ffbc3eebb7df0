// Package reactor is the engine for plaintext connections on Linux: raw epoll.
//
// Each processor is a goroutine with an epoll set, and owns its connections outright: nothing of theirs is locked, and an
// idle one holds no buffer and no goroutine. It reads, has the requests run (in place, where the application allows it),
// and writes, to completion for one connection after the other. Others reach it through an inbox; the eventfd behind it is
// written only when the processor has announced that it sleeps.
//
// Invariants:
//   - Epoll is level-triggered. EPOLLIN is taken away only when an event arrives for a connection that may not be read;
//     EPOLLOUT is there only while the socket's buffer is full and something is left to send.
//   - An event names a slot and its generation, so that one that was reported for a connection that has since been closed
//     never reaches the next user of its slot or descriptor. Other goroutines hold a *conn, never a descriptor.
//   - Bytes read and written per connection and turn are bounded; what is left goes on after the others had their turn.
//   - A file range marked cold is sent only when its pages are there: a few loader goroutines wait for the disk instead.
package reactor
