-- Decides the one limit of a request.
--
-- KEYS[1]  the counter
-- ARGV[1]  the limit, packed as the head of the algorithm's file says
-- ARGV[2]  now in microseconds; absent: the server's time
--
-- Reply: one string: now i8, flags B (1 allowed, 2 never, 4 charged), remaining
-- I5, instant i8 (of the charge, or of the retry), instant of the reset i8,
-- fraction I4. Instants and not waits, because the sum of the longest wait and an
-- instant is exact and their difference with now need not be. Or a list of one
-- number: the instant for which boundaries are missing, and nothing is changed.
--
-- Why a script: what is read must still hold when it is written. TAKE is the
-- algorithm's function. The key's time to live is the time until its
-- state is the same as a fresh one, and a minute more when the caller brings the
-- time, whose clock and whose fellow callers' clocks need not agree with the
-- server's. A call that writes nothing still heals a missing time to live, or one
-- that is too short since the limit was made slower.

--@ one
local key, now, slack = KEYS[1], ARGV[2], 60001
if now then
  now = now + 0
else
  local t = call('TIME')
  now, slack = t[1] * 1000000 + t[2], 2
end
local flags, remaining, x, reset, frac, value, fresh = TAKE(now, key, ARGV[1])
if not flags then
  if type(remaining) == 'number' then return { remaining } end
  return redis.error_reply('BADSTATE the value of the counter is not one of a version that this script knows')
end
if fresh < now then fresh = now end
local ttl = floor((fresh - now) / 1000) + slack
if value then
  if type(value) == 'string' then
    call('SET', key, value, 'PX', ttl)
  else
    call('SETRANGE', key, value[3], value[2])
    call('SETRANGE', key, 0, value[1])
    call('PEXPIRE', key, ttl)
  end
else
  local left = call('PTTL', key)
  if left == -1 or left >= 0 and left + 2000 < ttl then call('PEXPIRE', key, ttl) end
end
return pack('>i8BI5i8i8I4', now, flags, remaining, x, reset, frac)
