package ruletest_test

import (
	"fmt"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/ruletest"
)

func ExampleRun() {
	report, err := ruletest.Run("testdata/shop_test.yaml", rule.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	// Output:
	// ok    five guesses a minute
	// ok    a quota starts anew at midnight
	// ok    a queue gives turns
	// ok    somebody unknown
	// ok    by descriptor
}
