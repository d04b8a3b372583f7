-- Decides several requests, each by itself and one after the other; the limits of
-- each are all charged, or none is.
--
-- KEYS     one counter per limit, request by request; limits that share a counter
--          name it each
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  two bytes per request: how many limits it has, and how many callers ask
--          the same (of several limits: 1)
-- ARGV[3..]  request by request: of one limit, the limit, packed as the head of its
--          algorithm's file says. Of several, first their modes, one letter each (e
--          enforce, s shadow, q quota; capital when the limit shares its counter
--          with another one of the request); then the limits, packed with what the
--          request asks of their counter; then, if there was a capital, the same
--          with what each limit by itself charges
--
-- Reply: a list: now i8; then of each request a string with flags to fraction once
-- per limit, 26 bytes each, as one.lua has them; once per caller, in order, where
-- several ask the same, and only up to the first who is denied. Or an error, or a number: the
-- instant for which boundaries are missing, of several limits in a list with the
-- place of the one that lacks them; all say that this request alone has changed
-- nothing (but where the server refused to write half way).
--
-- Why one script: between reading one counter and charging another nobody else may
-- spend what was read; and callers who ask at the same time share the price of a
-- script's start, of the time, and of a command.

--@ batch
local now, slack = ARGV[1], 60001
if now ~= '' then
  now = now + 0
else
  local t = call('TIME')
  now, slack = t[1] * 1000000 + t[2], 2
end

local function write(key, value, fresh)
  if fresh < now then fresh = now end
  local ttl = floor((fresh - now) / 1000) + slack
  if not value then
    local left = call('PTTL', key)
    if left == -1 or left >= 0 and left + 2000 < ttl then call('PEXPIRE', key, ttl) end
  elseif type(value) == 'string' then
    call('SET', key, value, 'PX', ttl)
  else
    call('SETRANGE', key, value[3], value[2])
    call('SETRANGE', key, 0, value[1])
    call('PEXPIRE', key, ttl)
  end
end

local function refuse(why, i)
  if type(why) == 'number' then return i and { why, i } or why end
  return redis.error_reply('BADSTATE the value of the counter is not one of a version that this script knows')
end

local function single(key, p)
  local flags, remaining, x, reset, frac, value, fresh = TAKES[byte(p)](now, key, p)
  if not flags then return refuse(remaining) end
  write(key, value, fresh)
  return pack('>BI5i8i8I4', flags, remaining, x, reset, frac)
end

local ask = call

-- same decides n callers who ask the same of one counter, one after the other, each
-- as if alone, but the counter is read and written once. After one who is denied
-- nothing has changed, so the rest are denied likewise. For counters whose value is
-- read whole and written whole.
local function same(key, p, n)
  local take, held = TAKES[byte(p)], call('GET', key)
  local out, last, fresh = {}, nil, now
  call = function(command, ...)
    if command == 'GET' then return held end
    return ask(command, ...)
  end
  for i = 1, n do
    local flags, remaining, x, reset, frac, value, later = take(now, key, p)
    if not flags then return refuse(remaining) end
    fresh = later
    if value then held, last = value, value end
    out[i] = pack('>BI5i8i8I4', flags, remaining, x, reset, frac)
    if flags % 2 == 0 and not value then break end
  end
  call = ask
  write(key, last, fresh)
  return table.concat(out)
end

-- together decides n limits whose counters are KEYS[k + 1] and on. First every
-- limit is asked as if nothing else were there. If the enforced ones have room,
-- each with room is charged, enforced ones first; limits that share a counter are
-- asked again then, one after the other. If not, nothing is written but what counts
-- denied calls, and limits with room say what remains without the request.
local function together(k, n, a)
  local modes = ARGV[a]
  local all, any_quota, quota_denies, denied = {}, false, true, false
  for i = 1, n do
    local p = ARGV[a + i]
    local take = TAKES[byte(p)]
    local flags, remaining, x, reset, frac, value, fresh = take(now, KEYS[k + i], p)
    if not flags then return refuse(remaining, i) end
    all[i] = { flags, remaining, x, reset, frac, value, fresh, take }
    local mode = byte(modes, i)
    if mode == 113 or mode == 81 then
      any_quota = true
      if flags % 2 == 1 then quota_denies = false end
    elseif (mode == 101 or mode == 69) and flags % 2 == 0 then
      denied = true
    end
  end
  if any_quota and quota_denies then denied = true end

  if denied then
    for i = 1, n do
      local d = all[i]
      if d[1] % 2 == 1 then
        d[1], d[2], d[3], d[4], d[5], d[6], d[7] = d[8](now, KEYS[k + i], ARGV[a + i], true)
        d[6] = nil
      end
      write(KEYS[k + i], d[6], d[7])
    end
  else
    for pass = 1, 2 do
      for i = 1, n do
        local mode, d = byte(modes, i), all[i]
        if (mode == 101 or mode == 69) == (pass == 1) then
          if mode < 97 then
            d[1], d[2], d[3], d[4], d[5], d[6], d[7] = d[8](now, KEYS[k + i], ARGV[a + n + i])
          end
          write(KEYS[k + i], d[6], d[7])
        end
      end
    end
  end
  local out = {}
  for i = 1, n do
    local d = all[i]
    out[i] = pack('>BI5i8i8I4', d[1], d[2], d[3], d[4], d[5])
  end
  return table.concat(out)
end

local replies, k, a, sizes = { pack('>i8', now) }, 0, 3, ARGV[2]
for i = 1, #sizes / 2 do
  local n, asked, ok, reply = byte(sizes, 2 * i - 1), byte(sizes, 2 * i), nil, nil
  if n == 1 then
    if asked > 1 then
      ok, reply = pcall(same, KEYS[k + 1], ARGV[a], asked)
      call = ask
    else
      ok, reply = pcall(single, KEYS[k + 1], ARGV[a])
    end
    a = a + 1
  else
    ok, reply = pcall(together, k, n, a)
    if ARGV[a]:find('%u') then a = a + n end
    a = a + 1 + n
  end
  if not ok and type(reply) ~= 'table' then reply = redis.error_reply(tostring(reply)) end
  replies[i + 1] = reply
  k = k + n
end
return replies
