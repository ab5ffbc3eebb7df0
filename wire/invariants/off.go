//go:build !race && !invariants

// Package invariants turns on checks that are too dear for production. They are on in race builds, which is what the
// tests run, and with the build tag invariants.
package invariants

// Enabled says whether this build checks its invariants.
const Enabled = false
