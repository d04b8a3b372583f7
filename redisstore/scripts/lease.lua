-- Settles an instance's lease, decides one call, and leases some of what is left.
--
-- KEYS[1]  the counter
-- ARGV[1]  the limit and the cost of the call, packed as the head of the
--          algorithm's file says; cost 0: no call
-- ARGV[2]  now in microseconds, or empty: the server's time
-- ARGV[3]  the holder, 8 bytes
-- ARGV[4]  packed: how much of the lease was spent since the last time I5; how much
--          goes back I5; the start of the window that it was of i8; how much more is
--          wanted I5; the least that is worth having I5; how long a lease lasts, in
--          microseconds I5
-- ARGV[5]  the channel on which other instances learn to ask again
--
-- Reply: as one.lua, for the call; then what was leased I5, what the holder has out
-- now I5, and two instants i8: when that ends, and what was charged (the start of the
-- window, or now). Or a list of one number: the instant for which boundaries are
-- missing, and nothing is changed.
--
-- Why a script: what is leased must be there when it is, and what is spent must be
-- consumed in the step in which it stops being leased. At most half of what is left
-- is leased, so that the next who asks gets something.

--@ lease
local key, p, now, slack = KEYS[1], ARGV[1], ARGV[2], 60001
if now ~= '' then
  now = now + 0
else
  local t = call('TIME')
  now, slack = t[1] * 1000000 + t[2], 2
end

local function write(value, fresh)
  if fresh < now then fresh = now end
  local ttl = floor((fresh - now) / 1000) + slack
  if value then
    call('SET', key, value, 'PX', ttl)
  else
    local left = call('PTTL', key)
    if left == -1 or left >= 0 and left + 2000 < ttl then call('PEXPIRE', key, ttl) end
  end
end

local function costing(n) return p:sub(1, 1) .. pack('>I5', n) .. p:sub(7) end

-- charge takes n, or all that is left for -1, and gives the instant charged; nil
-- when there is no room.
local function charge(n)
  if n < 0 then
    local _, left = TAKE(now, key, p, true)
    n = left
  end
  local flags, _, x, _, _, value, fresh = TAKE(now, key, costing(n))
  if flags ~= 5 then return nil end
  write(value, fresh)
  return x
end
HOLD
local known, why = TAKE(now, key, p, true)
if not known then
  if type(why) == 'number' then return { why } end
  return redis.error_reply('BADSTATE the value of the counter is not one of a version that this script knows')
end
local spent, back, start, want, least, life = unpack('>I5I5i8I5I5I5', ARGV[4])
settle(now, key, ARGV[3], spent, back, p, start)
local flags, remaining, x, reset, frac, value, fresh = TAKE(now, key, p)
write(value, fresh)
local leased, out, ends, at = floor(remaining / 2), 0, 0, 0
if leased > want then leased = want end
if flags % 2 == 0 or leased == 0 or leased < least then leased = 0 end
if leased > 0 then
  out, ends, at = hold(now, key, p, ARGV[3], leased, life)
  if not out then leased, out, ends, at = 0, 0, 0, 0 end
  local _, _, _, _, _, _, later = TAKE(now, key, p, true)
  write(nil, later)
end
if back > leased then redis.pcall('PUBLISH', ARGV[5], key) end
return pack('>i8BI5i8i8I4I5I5i8i8', now, flags, remaining, x, reset, frac, leased, out, ends, at)
