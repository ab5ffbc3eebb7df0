// Package broker puts the parts of a broker together, starts them in order and stops them in order. What they are is in
// docs/architecture.md; what each API does is in broker/api.
package broker
