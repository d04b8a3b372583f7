package storetest_test

import (
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

func TestMemstore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		return memstore.New(memstore.Options{Clock: clock})
	}, storetest.Options{Rounds: 100, Traces: 40})
}
