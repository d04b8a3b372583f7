-- Notes that an instance is alive, and counts those that are.
--
-- KEYS[1]  the instances: a sorted set of ids by the millisecond until which each
--          counts
-- ARGV[1]  this instance's id
-- ARGV[2]  how long it counts, in milliseconds
-- ARGV[3]  now in milliseconds; absent: the server's time
--
-- Reply: how many instances count now, this one included. Why a script: the clock
-- must be one for all, and the set must not outlive its members.

--@ heart
local now = ARGV[3]
if now then
  now = now + 0
else
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
