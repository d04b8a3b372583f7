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
--             which is W x period + F, up to 2^72.
-- The instant is a whole number of ticks.
--
-- Packed argument: algorithm B, cost I5, capacity I4, requests I4,
-- period in ticks I5, tick in microseconds I3.
--
-- Gives flags, remaining, instant (of the charge, or when a denied call would
-- pass), instant of the reset, 0, the value to write if charged, and the instant
-- from which the state is the same as a fresh one.

--@ token_bucket
-- For buckets whose capacity x period is below 2^51: one number says it all.
local function token_bucket(now, key, p, peek)
  local _, cost, capacity, rate, period, tick = unpack('>BI5I4I4I5I3', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local full, used, at = capacity * period, 0, 0
  local v = call('GET', key)
  if v then
    local version, low, rest, whole
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
  local t = now - now % tick
  if t > at then
    -- Beyond 2^53 the product is rounded, and still larger than what was used.
    if used > 0 then used = used - (t - at) / tick * rate end
    if used < 0 then used = 0 end
    at = t
  end
  local need, flags, x, value = used + cost * period, 0, 0, nil
  if need <= full then
    flags = 1
    if cost > 0 then
      flags, x, used = 5, at, need
      local high = floor(at / 281474976710656)
      local low = at - high * 281474976710656
      if used < 1099511627776 then
        value = pack('>BI6I5', 128 + high, low, used)
      else
        local rest = used % period
        value = pack('>BI6I5I4', 128 + high, low, rest, (used - rest) / period)
      end
    end
  elseif cost > capacity then
    flags = 2
  else
    x = at - floor((full - need) / rate) * tick
  end
  local reset = 0
  if used > 0 then reset = at - floor(-used / rate) * tick end
  return flags, floor((full - used) / period), x, reset, 0, value, reset
end

--@ token_bucket_wide
-- For all other buckets: whole tokens and a rest, each exact by itself.
local function token_bucket_wide(now, key, p, peek)
  local _, cost, capacity, rate, period, tick = unpack('>BI5I4I4I5I3', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local whole, rest, at = 0, 0, 0
  local v = call('GET', key)
  if v then
    local version, low
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
  local t = now - now % tick
  if t > at then
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
  local flags, x, value = 0, 0, nil
  if whole + cost < capacity or whole + cost == capacity and rest == 0 then
    flags = 1
    if cost > 0 then
      flags, x, whole = 5, at, whole + cost
      local high = floor(at / 281474976710656)
      local low = at - high * 281474976710656
      if whole * period + rest < 1099511627776 then
        value = pack('>BI6I5', 128 + high, low, whole * period + rest)
      else
        value = pack('>BI6I5I4', 128 + high, low, rest, whole)
      end
    end
  elseif cost > capacity then
    flags = 2
  else
    x = at + ticks(whole + cost - capacity, rest) * tick
  end
  local remaining, reset = capacity - whole, 0
  if rest > 0 then remaining = remaining - 1 end
  if whole > 0 or rest > 0 then reset = at + ticks(whole, rest) * tick end
  return flags, remaining, x, reset, 0, value, reset
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
  elseif #v == 16 then
    version, low, rest, whole = unpack('>BI6I5I4', v)
  end
  if not version or version < 128 or version > 191 then return nil, v end
  whole = whole - n
  if whole < 0 then whole, rest = 0, 0 end
  if whole * period + rest < 1099511627776 then
    return true, pack('>BI6I5', version, low, whole * period + rest)
  end
  return true, pack('>BI6I5I4', version, low, rest, whole)
end
