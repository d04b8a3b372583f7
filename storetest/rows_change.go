package storetest

// changeRows put other numbers in force for a key that has consumed something.
var changeRows = []row{
	{
		name:  "Change/TokenBucketRaisedAndLowered",
		rule:  "a changed burst keeps what was consumed, and a lowered one clamps it (C49)",
		limit: "10/h",
		steps: []step{
			{cost: 8, remaining: 2, until: "48m"},
			{limit: "10/h burst 20", remaining: 12, until: "48m"},
			{limit: "10/h burst 5", remaining: 0, until: "30m"},
			{limit: "10/h", remaining: 2, until: "48m"},
		},
	},
	{
		name:  "Change/TokenBucketRate",
		rule:  "a changed rate applies at once to what was consumed before",
		limit: "10/h",
		steps: []step{
			{cost: 10, remaining: 0, until: "1h"},
			{limit: "20/h burst 10", cost: 1, denied: true, retry: "3m", until: "30m"},
			{limit: "20/h burst 10", at: "3m", cost: 1, remaining: 0, until: "30m"},
		},
	},
	{
		name:  "Change/TokenBucketToZeroAndBack",
		rule:  "a limit set to 0 denies at once, and what was consumed is still there afterwards",
		limit: "10/h",
		steps: []step{
			{cost: 8, remaining: 2, until: "48m"},
			{limit: "0/h", cost: 1, denied: true, never: true},
			{limit: "10/h", remaining: 2, until: "48m"},
		},
	},
	{
		name:  "Change/C50RaisedAfterDenials",
		rule:  "denials were not counted: 50 tries against 10, then a limit of 20 admits 10 more",
		limit: "10/h fixed_window",
		steps: []step{
			{cost: 1, times: 10, remaining: 0, until: "1h"},
			{cost: 1, times: 40, denied: true, retry: "1h", until: "1h"},
			{limit: "20/h fixed_window", cost: 1, times: 10, remaining: 0, until: "1h"},
			{limit: "20/h fixed_window", cost: 1, denied: true, retry: "1h", until: "1h"},
		},
	},
	{
		name:  "Change/C49FixedWindowLowered",
		rule:  "10/min with 8 used, lowered to 5/min: 0 left, a peek still passes, and the next window has 5",
		limit: "10/m fixed_window",
		steps: []step{
			{cost: 8, remaining: 2, until: "1m"},
			{limit: "5/m fixed_window", remaining: 0, until: "1m"},
			{cost: 1, denied: true, retry: "1m", until: "1m", limit: "5/m fixed_window"},
			{at: "1m", cost: 5, remaining: 0, until: "1m"},
		},
	},
	{
		name:  "Change/SlidingLogLowered",
		rule:  "the log keeps its entries: under a lowered limit calls pass when so many have left that they fit",
		limit: "10/m sliding_log",
		steps: []step{
			{cost: 4, remaining: 6, until: "1m"},
			{at: "10s", cost: 4, remaining: 2, until: "1m"},
			{at: "20s", limit: "5/m sliding_log", remaining: 0, until: "50s"},
			{at: "20s", cost: 1, denied: true, retry: "40s", until: "50s"},
			{at: "1m", cost: 1, remaining: 0, until: "1m"},
			{at: "1m", limit: "20/m sliding_log", remaining: 15, until: "1m"},
		},
	},
	{
		name:  "Change/SlidingWindowLowered",
		rule:  "both counts are kept: a peek passes with 0 remaining, and calls wait until the share has fallen",
		limit: "10/m sliding_window",
		steps: []step{
			{cost: 8, remaining: 2, until: "1m52.500001s"},
			{limit: "5/m sliding_window", remaining: 0, until: "1m52.500001s"},
			{cost: 1, denied: true, retry: "1m22.500001s", until: "1m52.500001s"},
			{at: "1m22.500001s", cost: 1, remaining: 0, until: "37.5s"},
			{at: "1m22.500001s", limit: "10/m sliding_window", remaining: 5, until: "37.5s"},
		},
	},
	{
		name:  "Change/LeakyBucketQueueShortened",
		rule:  "turns already given stand: nobody new is admitted until the tail is within the shorter queue",
		limit: "1/10s leaky_bucket queue 5",
		steps: []step{
			{cost: 1, times: 6, remaining: 0, until: "1m", delay: "50s"},
			{limit: "1/10s leaky_bucket queue 1", cost: 1, denied: true, retry: "50s", until: "1m"},
			{at: "50s", cost: 1, remaining: 0, until: "20s", delay: "10s"},
		},
	},
	{
		name:  "Change/LeakyBucketRate",
		rule:  "the bucket keeps the last turn given and spaces from it at the present rate",
		limit: "1/10s leaky_bucket queue 5",
		steps: []step{
			{cost: 1, times: 3, remaining: 3, until: "30s", delay: "20s"},
			{limit: "2/10s leaky_bucket queue 9", cost: 1, remaining: 4, until: "30s", delay: "25s"},
			{cost: 1, remaining: 3, until: "35s", delay: "30s"},
			{limit: "1/10s leaky_bucket queue 5", cost: 1, remaining: 1, until: "50s", delay: "40s"},
		},
	},
}
