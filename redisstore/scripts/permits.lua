-- Permits of concurrency limits: taken, renewed and released.
--
-- Key: one sorted set per counter: the permits that are held, each an id of 8
-- bytes by the microsecond at which its lease ends. Those whose lease is over are
-- dropped by whoever takes or looks next. (A number beside it would drift: an
-- increment whose decrement never comes stays for ever.)
--
-- The time to live is the longest lease in the set, and a minute more when the
-- caller brings the time; a set with nobody in it is gone at once.

--@ permit_prelude
local call, pack, unpack, floor, byte = redis.call, struct.pack, struct.unpack, math.floor, string.byte
local now, slack = ARGV[1], 60001
if now ~= '' then
  now = now + 0
else
  local t = call('TIME')
  now, slack = t[1] * 1000000 + t[2], 2
end
local function number(n) return string.format('%.0f', n) end
local function keep(key, lease)
  local ttl = floor(lease / 1000) + slack
  if call('PTTL', key) < ttl then call('PEXPIRE', key, ttl) end
end

--@ permit_acquire
-- Takes one permit of each limit of a request, or none.
--
-- KEYS     the counters, one per limit; two limits may share one
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  per limit 20 bytes: B (1 shadow, 2 peek), max I4, lease in microseconds
--          I7, the id of the permit in 8 bytes
--
-- Reply: per limit 9 bytes: flags B (1 allowed, 2 taken), how many are held I8.
-- Why a script: of two calls for the last permit only one may find it free, and
-- the permits of a request are taken together.
local p, taken, passes, flags, limits = ARGV[2], {}, true, {}, {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local mode, most, lease = unpack('>BI4I7', p, 20 * i - 19)
  limits[i] = { mode, lease, p:sub(20 * i - 7, 20 * i) }
  if not taken[key] then
    call('ZREMRANGEBYSCORE', key, '-inf', number(now))
    taken[key] = call('ZCARD', key)
  end
  if mode >= 2 then
    flags[i] = 1
  elseif taken[key] < most then
    flags[i], taken[key] = 3, taken[key] + 1
  else
    flags[i] = 0
    passes = passes and mode == 1
  end
end
local reply = {}
for i = 1, #KEYS do
  local key, limit = KEYS[i], limits[i]
  if flags[i] == 3 then
    if passes then
      call('ZADD', key, number(now + limit[2]), limit[3])
      keep(key, limit[2])
    else
      flags[i] = 1
    end
  end
end
for i = 1, #KEYS do
  local held = taken[KEYS[i]]
  if not passes then held = call('ZCARD', KEYS[i]) end
  reply[i] = pack('>BI8', flags[i], held)
end
return table.concat(reply)

--@ permit_renew
-- Lets permits of one counter last another lease.
--
-- KEYS[1]  the counter
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  the ids, 8 bytes each
-- ARGV[3]  the lease in microseconds
--
-- Reply: per id one byte, 1 when it was held, else 0. Why a script: a permit that
-- was released meanwhile must not come back.
local key, ids, lease, reply, any = KEYS[1], ARGV[2], ARGV[3] + 0, {}, false
for i = 1, #ids / 8 do
  local id = ids:sub(8 * i - 7, 8 * i)
  local ends = call('ZSCORE', key, id)
  reply[i] = '\0'
  if ends and ends + 0 > now then
    reply[i], any = '\1', true
    if ends + 0 < now + lease then call('ZADD', key, number(now + lease), id) end
  end
end
if any then keep(key, lease) end
return table.concat(reply)

--@ permit_release
-- Gives permits of one counter back.
--
-- KEYS[1]  the counter
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  the ids, 8 bytes each
--
-- Reply: per id one byte, 1 when it was held until now, else 0. Why a script: one
-- whose lease is over was not held, and of two who release it one is told so.
local key, ids, reply = KEYS[1], ARGV[2], {}
for i = 1, #ids / 8 do
  local id = ids:sub(8 * i - 7, 8 * i)
  local ends = call('ZSCORE', key, id)
  reply[i] = '\0'
  if ends then
    call('ZREM', key, id)
    if ends + 0 > now then reply[i] = '\1' end
  end
end
return table.concat(reply)
