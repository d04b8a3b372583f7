-- Sliding log: the twin of algorithm/slidinglog.go.
--
-- Why a script: dropping what no longer counts, summing, and adding an entry
-- must be one step.
--
-- Key: one string per counter, read and written in part, so that a call on a
-- large log costs what it drops and what it has to look at, not the whole log.
-- (A list would need a second key for the sum; a sorted set takes five times the
-- memory and cannot hold two calls of one instant without made-up members.)
-- Header of 20 bytes: version byte 128; the sum of the costs I4; how many of the
-- entries at the front no longer count I4; how many count I4; the instant of the
-- newest I7. Then the entries, oldest first, 11 bytes each: instant I7, cost I4.
-- Calls of one instant share an entry: they leave together anyway. Entries that
-- no longer count are cut off when they are most of the string.
--
-- Packed argument: algorithm B, cost I5, capacity I4, period in
-- microseconds I7.
--
-- Gives the same list as token_bucket.lua. The value is a string, or for large
-- logs a list {header, entry, offset of the entry}.

--@ sliding_log
-- How many entries are read at once, and up to which a log is written whole.
local CHUNK = 64

-- open_log reads the head of a log. entry(i) gives the i-th of all its entries,
-- counted from 0.
local function open_log(key)
  local text = call('GETRANGE', key, 0, 19 + 11 * CHUNK)
  if text == '' then return { used = 0, dead = 0, live = 0, newest = 0, text = '', whole = true } end
  if #text < 20 then return nil, text end
  local version, used, dead, live, newest = unpack('>BI4I4I4I7', text)
  if version ~= 128 then return nil, text end
  local base, chunk = 20, text:sub(21)
  local log = { used = used, dead = dead, live = live, newest = newest, there = true,
    text = text, whole = dead + live <= CHUNK }
  log.entry = function(i)
    local o = 20 + 11 * i
    if o < base or o + 11 > base + #chunk then
      base, chunk = o, call('GETRANGE', key, o, o + 11 * CHUNK - 1)
    end
    local at, cost = unpack('>I7I4', chunk, o - base + 1)
    return at, cost
  end
  return log
end

local function sliding_log(now, key, p, peek)
  local _, cost, capacity, period = unpack('>BI5I4I7', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local log, bad = open_log(key)
  if not log then return nil, bad end
  local used, dead, live, newest = log.used, log.dead, log.live, log.newest
  local at = now
  if live > 0 and newest > at then at = newest end
  if live > 0 and newest + period <= at then
    used, dead, live = 0, dead + live, 0 -- all at once, without a look at each
  end
  while live > 0 do
    local t, c = log.entry(dead)
    if t + period > at then break end
    used, dead, live = used - c, dead + 1, live - 1
  end

  local flags, x, value, fresh = 0, 0, nil, now
  if cost == 0 or used + cost <= capacity then
    flags = 1
    if cost > 0 then
      flags, x, used = 5, at, used + cost
      if live > 0 and newest == at then
        local _, c = log.entry(dead + live - 1)
        live, cost = live - 1, cost + c
      end
      local entry = pack('>I7I4', at, cost)
      if log.whole then
        value = pack('>BI4I4I4I7', 128, used, 0, live + 1, at)
          .. log.text:sub(21 + 11 * dead, 20 + 11 * (dead + live)) .. entry
      elseif dead > live then
        local kept = ''
        if live > 0 then kept = call('GETRANGE', key, 20 + 11 * dead, 19 + 11 * (dead + live)) end
        value = pack('>BI4I4I4I7', 128, used, 0, live + 1, at) .. kept .. entry
      else
        value = { pack('>BI4I4I4I7', 128, used, dead, live + 1, at), entry, 20 + 11 * (dead + live) }
      end
      live, newest = live + 1, at
    end
  elseif cost > capacity then
    flags = 2
  else
    local room, left, i = capacity - cost, used, dead
    while left > room do
      local t, c = log.entry(i)
      left, i, x = left - c, i + 1, t + period
    end
  end
  local remaining, reset = 0, 0
  if used < capacity then remaining = capacity - used end
  if live > 0 then fresh = newest + period end
  if used > 0 then reset = fresh end
  return flags, remaining, x, reset, 0, value, fresh
end

--@ sliding_log_refund
-- Takes up to n off the entry of the instant that was charged (at), or off the
-- newest ones, and drops what becomes empty. The entries sought are the last
-- ones or found by halving; only what lies behind a dropped one is moved.
local function refund(now, key, p, n, at)
  local log, bad = open_log(key)
  if not log then return nil, bad end
  if not log.there then return true end
  local first, last = log.dead, log.dead + log.live - 1
  local used, live, newest, value = log.used, log.live, log.newest, nil
  if at then
    local lo, hi = first, last
    while lo <= hi do
      local mid = floor((lo + hi) / 2)
      local t, c = log.entry(mid)
      if t == at then
        local taken = c
        if n < c then taken = n end
        used = used - taken
        if taken < c then
          return true, { pack('>BI4I4I4I7', 128, used, log.dead, live, newest), pack('>I7I4', t, c - taken), 20 + 11 * mid }
        end
        live = live - 1
        if live == 0 then newest = 0 elseif mid == last then newest = log.entry(mid - 1) end
        local all = call('GETRANGE', key, 20 + 11 * first, 19 + 11 * (last + 1))
        value = all:sub(1, 11 * (mid - first)) .. all:sub(11 * (mid - first) + 12)
        return true, pack('>BI4I4I4I7', 128, used, 0, live, newest) .. value
      end
      if t < at then lo = mid + 1 else hi = mid - 1 end
    end
    return true
  end
  local kept = ''
  while n > 0 and live > 0 do
    local t, c = log.entry(first + live - 1)
    if c > n then
      used, newest, kept = used - n, t, pack('>I7I4', t, c - n)
      break
    end
    used, n, live = used - c, n - c, live - 1
    if live == 0 then newest = 0 else newest = log.entry(first + live - 1) end
  end
  local rest = live
  if kept ~= '' then rest = live - 1 end
  value = ''
  if rest > 0 then value = call('GETRANGE', key, 20 + 11 * first, 19 + 11 * (first + rest)) end
  return true, pack('>BI4I4I4I7', 128, used, 0, live, newest) .. value .. kept
end
