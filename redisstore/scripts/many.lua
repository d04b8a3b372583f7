-- Decides all the limits of a request together: all are charged, or none is.
--
-- KEYS     one counter per limit; limits that share a counter name it each
-- ARGV[1]  now in microseconds, or empty: the server's time
-- ARGV[2]  the modes, one letter per limit: e enforce, s shadow, q quota; capital
--          when the limit shares its counter with another one of the request
-- ARGV[3..]  the limits, packed as the heads of the algorithms' files say, with
--          what the request asks of their counter; then, if any are shared, the
--          same with what each limit by itself charges
--
-- Reply: as one.lua, with flags to fraction once per limit, 26 bytes each.
--
-- Why one script: between reading one counter and charging another nobody else
-- may spend what was read. First every limit is asked as if nothing else were
-- there. If the enforced ones have room, each with room is charged, enforced ones
-- first; limits that share a counter are asked again then, one after the other.
-- If not, nothing is written, and limits with room say what remains without the
-- request.

--@ many
local now, modes, n, slack = ARGV[1], ARGV[2], #KEYS, 60001
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
    if call('PTTL', key) == -1 then call('PEXPIRE', key, ttl) end
  elseif type(value) == 'string' then
    call('SET', key, value, 'PX', ttl)
  else
    call('SETRANGE', key, value[3], value[2])
    call('SETRANGE', key, 0, value[1])
    call('PEXPIRE', key, ttl)
  end
end

local all, any_quota, quota_denies, denied = {}, false, true, false
for i = 1, n do
  local p = ARGV[2 + i]
  local take = TAKES[byte(p)]
  local flags, remaining, x, reset, frac, value, fresh = take(now, KEYS[i], p)
  if not flags then
    if type(remaining) == 'number' then return { remaining } end
    return redis.error_reply('BADSTATE the value of the counter is not one of a version that this script knows')
  end
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
      d[1], d[2], d[3], d[4], d[5], d[6], d[7] = d[8](now, KEYS[i], ARGV[2 + i], true)
    end
    write(KEYS[i], nil, d[7])
  end
else
  for pass = 1, 2 do
    for i = 1, n do
      local mode, d = byte(modes, i), all[i]
      if (mode == 101 or mode == 69) == (pass == 1) then
        if mode < 97 then
          d[1], d[2], d[3], d[4], d[5], d[6], d[7] = d[8](now, KEYS[i], ARGV[2 + n + i])
        end
        write(KEYS[i], d[6], d[7])
      end
    end
  end
end

local reply = { pack('>i8', now) }
for i = 1, n do
  local d = all[i]
  reply[i + 1] = pack('>BI5i8i8I4', d[1], d[2], d[3], d[4], d[5])
end
return table.concat(reply)
