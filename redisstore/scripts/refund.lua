-- Takes a charge back, or credits a counter, and tells every instance that it
-- was done.
--
-- KEYS[1]  the counter
-- KEYS[2]  the mark of the receipt; absent: nothing to mark
-- ARGV[1]  the limit, packed as the head of the algorithm's file says
-- ARGV[2]  now in microseconds, or empty: the server's time
-- ARGV[3]  how much
-- ARGV[4]  the instant that was charged, or empty: no receipt
-- ARGV[5]  the instant until which the charge counts
-- ARGV[6]  1: take it back; 0: only use the receipt up (a call that left its queue)
-- ARGV[7]  the channel on which other instances learn to ask again
--
-- Reply: 0 when the receipt was used before. A list of one number: the instant
-- for which boundaries are missing, and nothing is changed. Else what a peek says
-- now, as one.lua.
--
-- Why a script: of two refunds of one receipt only one may find the mark missing.
-- The mark lives as long as the charge counts, and a minute at least. Later a
-- token bucket gives nothing back, by the server's time: a caller's clock may go
-- back and forth and cannot say that it is over. Of the others, whose receipts name
-- what they charged, there is nothing left to give back. The
-- counter keeps its time to live, since another limit may need it for longer.

--@ refund
local key, now, n, at, slack = KEYS[1], ARGV[2], ARGV[3] + 0, nil, 60001
if now ~= '' then
  now = now + 0
else
  local t = call('TIME')
  now, slack = t[1] * 1000000 + t[2], 2
end
if ARGV[4] ~= '' then at = ARGV[4] + 0 end
local mark = KEYS[2]
if mark and call('EXISTS', mark) == 1 then return 0 end

local form = byte(ARGV[1])
local lapsed = mark and (form == 1 or form == 6) and ARGV[2] == '' and now >= ARGV[5] + 0
if ARGV[6] == '1' and not lapsed then
  local ok, value = refund(now, key, ARGV[1], n, at)
  if not ok then
    if type(value) == 'number' then return { value } end
    return redis.error_reply('BADSTATE the value of the counter is not one of a version that this script knows')
  end
  if value then
    if type(value) == 'string' then
      call('SET', key, value, 'KEEPTTL')
    else
      call('SETRANGE', key, value[3], value[2])
      call('SETRANGE', key, 0, value[1])
    end
  end
end
if mark then
  local ttl = floor((ARGV[5] - now) / 1000) + slack
  if ttl < 60000 then ttl = 60000 end
  call('SET', mark, '', 'PX', ttl)
end
-- Without a right to the channel no instance listens to it either.
redis.pcall('PUBLISH', ARGV[7], key)

local flags, remaining, x, reset, frac, _, fresh = TAKE(now, key, ARGV[1], true)
if not flags then return pack('>i8BI5i8i8I4', now, 0, 0, 0, 0, 0) end
if call('PTTL', key) == -1 then
  if fresh < now then fresh = now end
  call('PEXPIRE', key, floor((fresh - now) / 1000) + slack)
end
return pack('>i8BI5i8i8I4', now, flags, remaining, x, reset, frac)
