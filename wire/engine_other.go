//go:build !linux

package wire

const bestEngine = EngineNetloop
