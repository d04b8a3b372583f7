-- Sliding window counter: the twin of algorithm/slidingwindow.go.
--
-- Why a script: the estimate, the comparison and the count must be one step.
--
-- Key: one string per counter: version byte (128 plus the top six bits of the
-- window's start), the other 48 bits of the start, then the counts of this
-- window and of the one before: 11 bytes with I2 each, 15 bytes with I4 each.
--
-- Packed argument: algorithm B, cost I5, capacity I4, period in ticks
-- I5, tick in microseconds I3.
--
-- Gives the same list as token_bucket.lua; the instant of a charge is the start
-- of its window.

--@ sliding_window
local function counts(key)
  local v = call('GET', key)
  if not v then return 0, 0, 0, false end
  local version, low, current, previous
  if #v == 11 then
    version, low, current, previous = unpack('>BI6I2I2', v)
  elseif #v == 15 then
    version, low, current, previous = unpack('>BI6I4I4', v)
  end
  if not version or version < 128 or version > 191 then return nil, v end
  return (version - 128) * 281474976710656 + low, current, previous, true
end

local function counts_value(start, current, previous)
  local high = floor(start / 281474976710656)
  local low = start - high * 281474976710656
  if current < 65536 and previous < 65536 then
    return pack('>BI6I2I2', 128 + high, low, current, previous)
  end
  return pack('>BI6I4I4', 128 + high, low, current, previous)
end

-- slide moves the counts into the window that holds the instant at.
local function slide(at, period, start, current, previous)
  local now = at - at % period
  if now == start then return start, current, previous end
  if now - period == start then return now, 0, current end
  return now, 0, 0
end

local function sliding_window(now, key, p, peek)
  local _, cost, capacity, ticks, tick = unpack('>BI5I4I5I3', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local start, current, previous = counts(key)
  if not start then return nil, current end
  local at, period = now, ticks * tick
  if start > at then at = start end
  start, current, previous = slide(at, period, start, current, previous)

  -- falls(n, room): how many ticks into a window the share of n calls of the
  -- window before, floor(n * (ticks - x) / ticks), first is at most room.
  local function falls(n, room)
    if n <= room then return 0 end
    local left = (room + 1) * ticks
    if left < 9007199254740992 then
      left = floor((left - 1) / n)
    else
      local rest
      left, rest = muldiv(ticks, room + 1, n)
      if rest == 0 then left = left - 1 end
    end
    if left > ticks then left = ticks end
    return ticks - left
  end
  -- below(room): the first instant at which at most room counts.
  local function below(room)
    if current <= room then
      local x = falls(previous, room - current)
      if x < ticks then return start + x * tick end
      return start + period
    end
    return start + period + falls(current, room) * tick
  end

  local left = ticks - floor((at - start) / tick)
  local used = previous * left
  if used < 9007199254740992 then used = floor(used / ticks) else used = muldiv(left, previous, ticks) end
  used = used + current
  local flags, x, value = 0, 0, nil
  if cost == 0 or used + cost <= capacity then
    flags = 1
    if cost > 0 then
      flags, x, current, used = 5, start, current + cost, used + cost
      value = counts_value(start, current, previous)
    end
  elseif cost > capacity then
    flags = 2
  else
    x = below(capacity - cost)
  end
  local remaining, reset, fresh = 0, 0, now
  if used < capacity then remaining = capacity - used end
  if used > 0 then reset = below(0) end
  if current > 0 then fresh = start + 2 * period elseif previous > 0 then fresh = start + period end
  return flags, remaining, x, reset, 0, value, fresh
end

--@ sliding_window_refund
-- Takes n off the window that was charged (at) while it counts, or off the
-- present one.
local function refund(now, key, p, n, at)
  local _, _, _, ticks, tick = unpack('>BI5I4I5I3', p)
  local start, current, previous, there = counts(key)
  if not start then return nil, current end
  if not there then return true end
  local period = ticks * tick
  if not at then
    at = now
    if start > at then at = start end
    at = at - at % period
    if at ~= start then return true end
  end
  if at == start then
    current = current - n
    if current < 0 then current = 0 end
  elseif at == start - period then
    previous = previous - n
    if previous < 0 then previous = 0 end
  else
    return true
  end
  return true, counts_value(start, current, previous)
end

--@ sliding_window_hold
-- A lease of a window is a charge of it: what goes back is taken off, if the window
-- still counts. What was spent needs no word.
local function settle(now, key, holder, spent, back, p, start)
  if back == 0 then return end
  local ok, value = refund(now, key, p, back, start)
  if ok and value then call('SET', key, value, 'KEEPTTL') end
end

local function hold(now, key, p, holder, n)
  local start = charge(n)
  if not start then return nil end
  local ticks, tick = unpack('>I5I3', p, 11)
  local stop = start + ticks * tick
  return n, stop, start
end
