-- Token bucket: the twin of algorithm/tokenbucket.go.
--
-- Why a script: reading what was consumed, working out what flowed back and
-- writing the sum must be one step, or two callers spend the same token.
--
-- Key: one string per counter. The value starts with the version byte, 128 plus
-- the top six bits of the instant, so that an ASCII value can never be taken
-- for one of ours; then the other 48 bits of the instant (microseconds); then
-- what was consumed, in tokens x ticks of the period:
--   12 bytes: consumption in 5 bytes, below 2^40;
--   16 bytes: whole tokens W and the rest F < period, 4 and 5 bytes (F first),
--             which is W x period + F, up to 2^72;
--   16 bytes and 19 for each lease that is out: the same, without what is leased;
--             then the holder's 8 bytes, the instant (I7) at which the lease ends,
--             and the tokens (I4) that are out.
-- The instant is a whole number of ticks. What is leased makes the bucket smaller
-- for as long as it is out, so that it refills only to the capacity less that. A
-- lease that ends is lost: its tokens are consumed at that instant.
--
-- Packed argument: algorithm B, cost I5, capacity I4, requests I4,
-- period in ticks I5, tick in microseconds I3.
--
-- Gives flags, remaining, instant (of the charge, or when a denied call would
-- pass), instant of the reset, 0, the value to write if charged, and the instant
-- from which the state is the same as a fresh one.

--@ token_bucket_leases
-- Takes the leases off a value: gives the rest; those that are still out, how much
-- they are and when the last one ends; and those that have ended, one list of
-- instants and tokens.
local function leases_of(v, now)
  if (#v - 16) % 19 ~= 0 then return v end
  local out, owed, last, gone = {}, 0, 0, nil
  for o = 17, #v, 19 do
    local ends, n = unpack('>I7I4', v, o + 8)
    if ends <= now then
      gone = gone or {}
      gone[#gone + 1], gone[#gone + 2] = ends, n
    else
      out[#out + 1], owed = v:sub(o, o + 18), owed + n
      if ends > last then last = ends end
    end
  end
  return v:sub(1, 16), table.concat(out), owed, last, gone
end

--@ token_bucket
-- For buckets whose capacity x period is below 2^51: one number says it all.
local function token_bucket(now, key, p, peek)
  local _, cost, capacity, rate, period, tick = unpack('>BI5I4I4I5I3', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local full, used, at = capacity * period, 0, 0
  local out, owed, last, gone = '', 0, 0, nil
  local v = call('GET', key)
  if v then
    local version, low, rest, whole
    if #v > 16 then v, out, owed, last, gone = leases_of(v, now) end
    if #v == 12 then
      version, low, used = unpack('>BI6I5', v)
    elseif #v == 16 then
      version, low, rest, whole = unpack('>BI6I5I4', v)
      used = whole * period + rest
    end
    if not version or version < 128 or version > 191 then return nil, v end
    at = (version - 128) * 281474976710656 + low
    if used > full then used = full end
  end
  if gone then
    for i = 1, #gone, 2 do
      local t = gone[i] - gone[i] % tick
      if t > at then
        used, at = used - (t - at) / tick * rate, t
        if used < 0 then used = 0 end
      end
      used = used + gone[i + 1] * period
      if used > full then used = full end
    end
  end
  local room = full - owed * period
  if room < 0 then room = 0 end
  local t = now - now % tick
  if t > at then
    -- Beyond 2^53 the product is rounded, and still larger than what was used.
    if used > 0 then used = used - (t - at) / tick * rate end
    if used < 0 then used = 0 end
    at = t
  end
  local need, flags, x, value = used + cost * period, 0, 0, nil
  if need <= room then
    flags = 1
    if cost > 0 then
      flags, x, used = 5, at, need
      local high = floor(at / 281474976710656)
      local low = at - high * 281474976710656
      if used < 1099511627776 and out == '' then
        value = pack('>BI6I5', 128 + high, low, used)
      else
        local rest = used % period
        value = pack('>BI6I5I4', 128 + high, low, rest, (used - rest) / period) .. out
      end
    end
  elseif cost > capacity then
    flags = 2
  else
    x = at - floor((room - need) / rate) * tick
  end
  local reset, left = 0, room - used
  if left < 0 then left = 0 end
  if used + owed > 0 then reset = at - floor(-(used + owed * period) / rate) * tick end
  local fresh = reset
  if last > at then fresh = reset + last - at end
  return flags, floor(left / period), x, reset, 0, value, fresh
end

--@ token_bucket_wide
-- For all other buckets: whole tokens and a rest, each exact by itself.
local function token_bucket_wide(now, key, p, peek)
  local _, cost, capacity, rate, period, tick = unpack('>BI5I4I4I5I3', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local whole, rest, at = 0, 0, 0
  local out, owed, last, gone = '', 0, 0, nil
  local v = call('GET', key)
  if v then
    local version, low
    if #v > 16 then v, out, owed, last, gone = leases_of(v, now) end
    if #v == 12 then
      version, low, rest = unpack('>BI6I5', v)
      local r = rest % period
      whole, rest = (rest - r) / period, r
    elseif #v == 16 then
      version, low, rest, whole = unpack('>BI6I5I4', v)
    end
    if not version or version < 128 or version > 191 then return nil, v end
    at = (version - 128) * 281474976710656 + low
    if whole >= capacity then whole, rest = capacity, 0 end
  end
  -- ticks(w, r): how many it takes until w tokens and a rest have flowed back.
  local function ticks(w, r)
    local q, left = muldiv(period, w, rate)
    return q - floor(-(left + r) / rate)
  end
  -- flow lets flow back what does until an instant.
  local function flow(instant)
    local t = instant - instant % tick
    if t <= at then return end
    local elapsed = (t - at) / tick
    at = t
    if elapsed * rate > (whole + 2) * period then
      whole, rest = 0, 0 -- rounding cannot make up for a whole token more
    else
      local q, r = muldiv(elapsed, rate, period)
      whole, rest = whole - q, rest - r
      if rest < 0 then whole, rest = whole - 1, rest + period end
      if whole < 0 then whole, rest = 0, 0 end
    end
  end
  if gone then
    for i = 1, #gone, 2 do
      flow(gone[i])
      whole = whole + gone[i + 1]
      if whole >= capacity then whole, rest = capacity, 0 end
    end
  end
  flow(now)
  local room = capacity - owed
  if room < 0 then room = 0 end
  local flags, x, value = 0, 0, nil
  if whole + cost < room or whole + cost == room and rest == 0 then
    flags = 1
    if cost > 0 then
      flags, x, whole = 5, at, whole + cost
      local high = floor(at / 281474976710656)
      local low = at - high * 281474976710656
      if whole * period + rest < 1099511627776 and out == '' then
        value = pack('>BI6I5', 128 + high, low, whole * period + rest)
      else
        value = pack('>BI6I5I4', 128 + high, low, rest, whole) .. out
      end
    end
  elseif cost > capacity then
    flags = 2
  else
    x = at + ticks(whole + cost - room, rest) * tick
  end
  local remaining, reset = room - whole, 0
  if rest > 0 then remaining = remaining - 1 end
  if remaining < 0 then remaining = 0 end
  if whole + owed > 0 or rest > 0 then reset = at + ticks(whole + owed, rest) * tick end
  local fresh = reset
  if last > at then fresh = reset + last - at end
  return flags, remaining, x, reset, 0, value, fresh
end

--@ token_bucket_refund
-- Gives n tokens back; it needs no instant. The value's own form says how.
local function refund(now, key, p, n)
  local _, _, _, _, period = unpack('>BI5I4I4I5I3', p)
  local v = call('GET', key)
  if not v then return true end
  local version, low, rest, whole
  if #v == 12 then
    version, low, rest = unpack('>BI6I5', v)
    local r = rest % period
    whole, rest = (rest - r) / period, r
  elseif #v >= 16 and (#v - 16) % 19 == 0 then
    version, low, rest, whole = unpack('>BI6I5I4', v)
  end
  if not version or version < 128 or version > 191 then return nil, v end
  whole = whole - n
  if whole < 0 then whole, rest = 0, 0 end
  if #v <= 16 and whole * period + rest < 1099511627776 then
    return true, pack('>BI6I5', version, low, whole * period + rest)
  end
  return true, pack('>BI6I5I4', version, low, rest, whole) .. v:sub(17)
end

--@ token_bucket_hold
-- settle makes a lease smaller by what goes back, and by what was spent, which is
-- then consumed now. A lease that has ended is lost already.
local function settle(now, key, holder, spent, back)
  local v = call('GET', key)
  if not v or #v <= 16 or (#v - 16) % 19 ~= 0 then return end
  for o = 17, #v, 19 do
    local ends, n = unpack('>I7I4', v, o + 8)
    if ends > now and v:sub(o, o + 7) == holder then
      if spent > n then spent = n end
      n = n - spent - back
      local lease = ''
      if n > 0 then lease = holder .. pack('>I7I4', ends, n) end
      call('SET', key, v:sub(1, o - 1) .. lease .. v:sub(o + 19), 'KEEPTTL')
      if spent > 0 and not charge(spent) then charge(-1) end
      return
    end
  end
end

-- hold adds n tokens to the holder's lease, which then ends at life from now. Gives
-- how many it has out, and when that ends; nothing when too many have leases.
local function hold(now, key, p, holder, n, life)
  local period = unpack('>I5', p, 15)
  local v, kept = call('GET', key), ''
  if not v then v = pack('>BI6I5I4', 128, 0, 0, 0) end
  if #v == 12 then
    local version, low, used = unpack('>BI6I5', v)
    local rest = used % period
    v = pack('>BI6I5I4', version, low, rest, (used - rest) / period)
  end
  local version, low = unpack('>BI6', v)
  local at = (version - 128) * 281474976710656 + low
  if at < now then at = now end
  for o = 17, #v, 19 do
    local ends, old = unpack('>I7I4', v, o + 8)
    if ends > now and v:sub(o, o + 7) == holder then n = n + old else kept = kept .. v:sub(o, o + 18) end
  end
  if #kept >= 19 * 64 then return nil end
  call('SET', key, v:sub(1, 16) .. kept .. holder .. pack('>I7I4', at + life, n), 'KEEPTTL')
  return n, at + life, at
end
