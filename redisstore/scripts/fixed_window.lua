-- Fixed window: the twin of algorithm/fixedwindow.go.
--
-- Why a script: compare and count must be one step, and the window must be the
-- one of the server's time.
--
-- Key: one string per counter, 11 bytes: version byte (128 plus the top six
-- bits of the window's start), the other 48 bits of the start, the count I4. The
-- start is in microseconds plus 2^45, because a calendar's window can begin
-- before 1970.
--
-- Packed argument: algorithm B, cost I5, capacity I4, and then either
-- the window's length I7 and offset from the epoch I7, or, for windows of a
-- calendar, four boundaries i8: the starts of the previous, the present and the
-- next window by the caller's clock, and the end of the next. The script picks by
-- its own time. When that lies outside, it gives the instant instead of a
-- decision, has changed nothing, and is asked again with other boundaries. One
-- more byte at the end makes denied calls count, as TakeCounting of the Go file
-- does.
--
-- Gives the same list as token_bucket.lua; the instant of a charge is the start
-- of its window.

--@ fixed_window
local function window_of(x, p)
  if #p < 26 then
    local length, offset = unpack('>I7I7', p, 11)
    local start = x - (x - offset) % length
    return start, start + length
  end
  local a, b, c, d = unpack('>i8i8i8i8', p, 11)
  if x < a or x >= d then return nil end
  if x < b then return a, b elseif x < c then return b, c end
  return c, d
end

local function window_state(key)
  local v = call('GET', key)
  if not v then return 0, 0, false end
  if #v ~= 11 then return nil, v end
  local version, low, count = unpack('>BI6I4', v)
  if version < 128 or version > 191 then return nil, v end
  return (version - 128) * 281474976710656 + low - 35184372088832, count, true
end

local function window_value(start, count)
  start = start + 35184372088832
  local high = floor(start / 281474976710656)
  return pack('>BI6I4', 128 + high, start - high * 281474976710656, count)
end

local function fixed_window(now, key, p, peek)
  local _, cost, capacity = unpack('>BI5I4', p)
  local counting = #p % 2 == 1
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local held, count = window_state(key)
  if not held then return nil, count end
  local x = now
  if held > x then x = held end
  local start, stop = window_of(x, p)
  if not start then return nil, x end
  local fresh = now
  if held < start then count = 0 elseif count > 0 then fresh = stop end
  local flags, at, value = 0, 0, nil
  if cost == 0 and counting and count > capacity and not peek then
    at = stop
  elseif cost == 0 or count + cost <= capacity then
    flags = 1
    if cost > 0 then
      flags, at, count, fresh = 5, start, count + cost, stop
      value = window_value(start, count)
    end
  elseif cost > capacity then
    flags = 2
  else
    at = stop
  end
  if counting and cost > 0 and flags ~= 5 then
    count, fresh = count + cost, stop
    if count > 4294967295 then count = 4294967295 end
    value = window_value(start, count)
  end
  local remaining, reset = 0, 0
  if count < capacity then remaining = capacity - count end
  if count > 0 then reset = stop end
  return flags, remaining, at, reset, 0, value, fresh
end

--@ fixed_window_refund
-- Takes n off the window that was charged (at), or off the present one.
local function refund(now, key, p, n, at)
  local held, count, there = window_state(key)
  if not held then return nil, count end
  if not there then return true end
  if not at then
    local x = now
    if held > x then x = held end
    at = window_of(x, p)
    if not at then return nil, x end
  end
  if held ~= at then return true end
  count = count - n
  if count < 0 then count = 0 end
  return true, window_value(held, count)
end

--@ fixed_window_hold
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
  local _, stop = window_of(start, p)
  return n, stop, start
end
