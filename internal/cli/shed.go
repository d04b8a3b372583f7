package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// shedRoute reads the switch of a route.
func shedRoute(s *settings, v []string) error {
	shed := &s.route.Shed
	if err := toggle(func(*settings) *bool { return &shed.Enabled })(s, v); err != nil {
		return err
	}
	shed.Disabled = !shed.Enabled
	return nil
}

// planWeights reads how much the clients of plans may have.
func planWeights(s *settings, v []string) error {
	weights := map[string]uint32{}
	err := eachPair(v, func(plan, text string) error {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n < 1 || n > shed.MaxWeight {
			return fmt.Errorf("the weight %q of plan %q must be a whole number from 1 to %d", text, plan, shed.MaxWeight)
		}
		weights[plan] = uint32(n)
		return nil
	})
	s.Shed.PlanWeights = weights
	return err
}

// reserves reads the room that priorities have of their own.
func reserves(s *settings, v []string) error {
	own := map[rule.Priority]int{}
	sum := 0
	err := eachPair(v, func(name, text string) error {
		p, known := rule.ParsePriority(name)
		if !known || p == rule.PriorityLow {
			return fmt.Errorf("%q has no reserve: write critical, high or normal", name)
		}
		n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil || n < 0 || n > 100 {
			return fmt.Errorf("the reserve %q of %s must be a whole number of percent from 0 to 100", text, p)
		}
		own[p] = n
		sum += n
		return nil
	})
	if err == nil && sum > 100 {
		return fmt.Errorf("reserves of %d %%: together they must not be over 100", sum)
	}
	s.Shed.Options.Reserves = own
	return err
}

// eachPair takes name=value apart, each name once.
func eachPair(v []string, take func(name, value string) error) error {
	seen := map[string]bool{}
	for _, pair := range v {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is no pair: write NAME=VALUE", pair)
		}
		if seen[name] {
			return fmt.Errorf("%q stands twice: keep one of them", name)
		}
		seen[name] = true
		if err := take(name, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}
