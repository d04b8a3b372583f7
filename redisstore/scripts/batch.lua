-- Decides several requests, each by itself and one after the other; the limits of
-- each are all charged, or none is.
--
-- KEYS     one counter per limit, request by request; limits that share a counter
--          name it each
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  three bytes per request: how many limits it has, and in two how many
--          callers ask the same
-- ARGV[3..]  request by request: of one limit, the limit, packed as the head of its
--          algorithm's file says. Of several, first their modes, one letter each (e
--          enforce, s shadow, q quota; capital when the limit shares its counter
--          with another one of the request); then the limits, packed with what the
--          request asks of their counter; then, if there was a capital, the same
--          with what each limit by itself charges
--
-- Reply: a list: now i8; then of each request a string with flags to fraction once
-- per limit, 26 bytes each, as one.lua has them; where several ask the same, either
-- that once per caller, in order (and, if it is shorter, the last is that of all who
-- come after); or for all of them together what crowd says below. Or an error, or a
-- number: the instant for which boundaries are missing, of several limits in a list
-- with the place of the one that lacks them; all say that this request alone has
-- changed nothing (but where the server refused to write half way).
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

-- repeated decides m callers who ask the same one after the other, each by itself.
local function repeated(m, f, ...)
  local out = {}
  for i = 1, m do
    out[i] = f(...)
    if type(out[i]) ~= 'string' then return out[i] end
  end
  return table.concat(out)
end

-- plain reports whether n calls of cost 1 on a limit are as one of cost n. Not those
-- whose denials count; nor of a queue with turns that were cancelled, or of which
-- somebody holds a share.
local function plain(key, p)
  local form, cost = unpack('>BI5', p)
  if cost ~= 1 then return false end
  if form == 3 then return #p % 2 == 0 end
  if form ~= 2 then return true end
  if #p ~= 66 then return false end
  local v = call('GET', key)
  return not v or #v == 17
end

-- costing gives a limit's call with another cost.
local function costing(p, n)
  if byte(p) ~= 2 then return p:sub(1, 1) .. pack('>I5', n) .. p:sub(7) end
  local rate, _, im, if_ = unpack('>I4I7I7I4', p, 12)
  local m, f = 0, 0
  if rate > 0 then m, f = span(n - 1, im, if_, rate) end
  return p:sub(1, 1) .. pack('>I5', n) .. p:sub(7, 44) .. pack('>I7I4', m, f) .. p:sub(56)
end

-- crowd decides m callers who ask the same with cost 1, in one step. As many pass as
-- the tightest enforced limit has room for (and the widest quota), and each limit is
-- charged for as many of them as it has room for. Gives how many pass, and of each
-- limit for how many it was charged; how long its state is, and what was written
-- where more must be known to tell what each of them would have been told; what it
-- says of the charge of them all; and, if some were not charged, what it says to one
-- who comes after. Gives nothing where they must be asked one after the other.
local function crowd(k, n, a, m)
  local modes, first = 'e', a - 1
  if n > 1 then modes, first = ARGV[a], a end
  if modes:find('%u') then return nil end
  local all, passing, quota = {}, m, nil
  for i = 1, n do
    local key, p = KEYS[k + i], ARGV[first + i]
    if not plain(key, p) then return nil end
    local d = { TAKES[byte(p)](now, key, costing(p, m)) }
    if not d[1] then return refuse(d[2], n > 1 and i) end
    local room, mode = m, byte(modes, i)
    if d[1] ~= 5 then room = d[2] end
    if mode == 113 then
      if not quota or room > quota then quota = room end
    elseif mode == 101 and room < passing then
      passing = room
    end
    all[i], d.room = d, room
  end
  if quota and quota < passing then passing = quota end

  for i = 1, n do
    local d, key, p = all[i], KEYS[k + i], ARGV[first + i]
    local charged = d.room
    if charged > passing then charged = passing end
    if charged > 0 and charged < m then
      d = { TAKES[byte(p)](now, key, costing(p, charged)) }
      all[i] = d
    end
    local form = byte(p)
    d.state, d.charged = '', charged
    if charged > 0 and (form == 1 or form == 5 or form == 6) then d.state = d[6] end
    if #d.state > 16 then return nil end -- leases are out
  end

  local out = { pack('>I2', passing) }
  for i = 1, n do
    local d, key, p = all[i], KEYS[k + i], ARGV[first + i]
    local say, after = '', ''
    if d.charged > 0 then
      write(key, d[6], d[7])
      say = pack('>BI5i8i8I4', d[1], d[2], d[3], d[4], d[5])
    end
    if d.charged < m then
      local flags, remaining, x, reset, frac, _, fresh = TAKES[byte(p)](now, key, p)
      if flags % 2 == 1 then
        flags, remaining, x, reset, frac, _, fresh = TAKES[byte(p)](now, key, p, true)
      end
      if d.charged == 0 then write(key, nil, fresh) end
      after = pack('>BI5i8i8I4', flags, remaining, x, reset, frac)
    end
    out[i + 1] = pack('>I2B', d.charged, #d.state) .. d.state .. say .. after
  end
  return table.concat(out)
end

local replies, k, a, sizes = { pack('>i8', now) }, 0, 3, ARGV[2]
for i = 1, #sizes / 3 do
  local n, asked = unpack('>BI2', sizes, 3 * i - 2)
  local ok, reply = true, nil
  if asked > 1 then ok, reply = pcall(crowd, k, n, a, asked) end
  if ok and type(reply) == 'string' then
    reply = { reply }
  elseif ok and not reply then
    if n > 1 then
      ok, reply = pcall(repeated, asked, together, k, n, a)
    elseif asked > 1 and byte(ARGV[a]) ~= 4 then
      ok, reply = pcall(same, KEYS[k + 1], ARGV[a], asked)
      call = ask
    else
      ok, reply = pcall(repeated, asked, single, KEYS[k + 1], ARGV[a])
    end
  end
  if n > 1 and ARGV[a]:find('%u') then a = a + n end
  a = a + 1
  if n > 1 then a = a + n end
  if not ok and type(reply) ~= 'table' then reply = redis.error_reply(tostring(reply)) end
  replies[i + 1] = reply
  k = k + n
end
return replies
