-- Leaky bucket: the twin of algorithm/leakybucket.go.
--
-- Why a script: a turn is given from the last one, and no two callers may get
-- the same.
--
-- A turn is an instant in microseconds and a fraction, counted in parts of
-- requests_per_unit, so that turns are exact at any rate.
--
-- Key: one string per counter: version byte 128; the last turn given, i8 and I4;
-- the rate that its fraction is a part of, I4; then the turns before it that were
-- cancelled and may lie ahead, earliest first, 11 bytes each (I7 and I4), at most
-- 1024.
--
-- Packed argument: algorithm B, cost I5, capacity I5, rate I4, period in
-- microseconds I7, and as instants with a fraction, I7 and I4 each: the interval
-- between turns; how far ahead a turn may lie; the length of cost - 1 intervals;
-- the length of capacity intervals less how far ahead a turn may lie. Then, for a
-- call that knows of turns given elsewhere, its least delay in microseconds, I7:
-- the bucket is as if the turn one interval before that had been given.
--
-- Gives the same list as token_bucket.lua; the instant and fraction of a charge
-- are its first turn.

--@ leaky_bucket
-- add and sub work on turns whose fractions are parts of rate.
local function add(am, af, bm, bf, rate)
  local m, f = am + bm, af + bf
  if f >= rate then return m + 1, f - rate end
  return m, f
end

local function sub(am, af, bm, bf, rate)
  local m, f = am - bm, af - bf
  if f < 0 then return m - 1, f + rate end
  return m, f
end

local function less(am, af, bm, bf)
  return am < bm or am == bm and af < bf
end

-- rebase makes a fraction of the rate from into one of the rate to, rounded up,
-- so that no turn moves earlier.
local function rebase(m, f, from, to)
  if f == 0 or from == to then return m, f end
  local q, r = muldiv(to, f, from)
  if r > 0 then q = q + 1 end
  if q >= to then return m + 1, 0 end
  return m, q
end

-- A length beyond 2^53 microseconds counts as that: it is longer than any limit
-- can be to recover.
local LONG = 9007199254740992

-- span gives the length of n intervals of im and if_.
local function span(n, im, if_, rate)
  if n * im >= LONG then return LONG, 0 end
  local q, r = muldiv(if_, n, rate)
  if n * im + q >= LONG then return LONG, 0 end
  return n * im + q, r
end

-- count gives how many whole intervals a length holds. The estimate can be one
-- off where the product is rounded.
local function count(m, f, period, rate, im, if_)
  local parts = m * rate
  if parts < 4503599627370496 then return floor((parts + f) / period) end
  local n = floor(m / period * rate)
  while n > 0 do
    local sm, sf = span(n, im, if_, rate)
    if not less(m, f, sm, sf) then break end
    n = n - 1
  end
  while true do
    local sm, sf = span(n + 1, im, if_, rate)
    if less(m, f, sm, sf) then return n end
    n = n + 1
  end
end

-- open_bucket reads the state, with its fractions in the rate of the limit. from
-- is where in the value the freed turns begin that still lie ahead; freed is how
-- many they are.
local function open_bucket(now, key, rate)
  local v = call('GET', key)
  if not v then return { rate = 0, freed = 0 } end
  if #v < 17 or (#v - 17) % 11 ~= 0 then return nil, v end
  local version, m, f, own = unpack('>Bi8I4I4', v)
  if version ~= 128 then return nil, v end
  local from = 18
  while from < #v do
    local tm, tf = unpack('>I7I4', v, from)
    if tf > 0 then tm = tm + 1 end
    if tm >= now then break end
    from = from + 11
  end
  local tail = v:sub(from)
  if own ~= rate then
    m, f = rebase(m, f, own, rate)
    local turns = {}
    for o = 1, #tail, 11 do
      local tm, tf = unpack('>I7I4', tail, o)
      turns[#turns + 1] = pack('>I7I4', rebase(tm, tf, own, rate))
    end
    tail = table.concat(turns)
  end
  return { m = m, f = f, rate = rate, own = own, tail = tail, freed = #tail / 11 }
end

local function leaky_bucket(now, key, p, peek)
  local _, cost, capacity, rate, period, im, if_, lm, lf, cm, cf, am, af =
    unpack('>BI5I5I4I7I7I4I7I4I7I4I7I4', p)
  if capacity == 0 then return 2, 0, 0, 0, 0, nil, now end
  if peek then cost = 0 end
  local s, bad = open_bucket(now, key, rate)
  if not s then return nil, bad end
  local latest, latest_f = now + lm, lf
  local fm, ff = nil, nil -- the first freed turn
  if s.freed > 0 then fm, ff = unpack('>I7I4', s.tail) end

  -- tail gives the turn that a call arriving now would get behind all others.
  local function tail()
    if s.rate == 0 then return now, 0 end
    local m, f = add(s.m, s.f, im, if_, rate)
    if m < now then return now, 0 end
    return m, f
  end

  if #p == 73 then -- a refund has its receipt there, which is longer
    local t = now + unpack('>I7', p, 67)
    local m, f = tail()
    if less(m, f, t, 0) then
      s.m, s.f = sub(t, 0, im, if_, rate)
      s.rate, s.tail, s.freed, fm = rate, '', 0, nil
    end
    while fm and less(fm, ff, t, 0) do
      s.tail, s.freed, fm = s.tail:sub(12), s.freed - 1, nil
      if s.freed > 0 then fm, ff = unpack('>I7I4', s.tail) end
    end
  end

  local flags, x, xf, value = 0, 0, 0, nil
  if cost > capacity then
    flags = 2
  elseif cost == 0 then
    flags = 1
  elseif cost == 1 and fm and not less(latest, latest_f, fm, ff) then
    flags, x, xf = 5, fm, ff
    s.tail, s.freed, fm = s.tail:sub(12), s.freed - 1, nil
    if s.freed > 0 then fm, ff = unpack('>I7I4', s.tail) end
  else
    -- The first turn must lie this far ahead at most for the last to fit. Asking so
    -- keeps sums below 2^53: the last turn of a call that does not fit may lie
    -- beyond it.
    local ahead, ahead_f = sub(lm, lf, cm, cf, rate)
    local first, first_f = tail()
    if less(now + ahead, ahead_f, first, first_f) then
      if cost == 1 and fm then first, first_f = fm, ff end
      x, xf = sub(first, first_f, ahead, ahead_f, rate)
      if xf > 0 then x, xf = x + 1, 0 end
    else
      flags, x, xf = 5, first, first_f
      s.m, s.f = add(first, first_f, cm, cf, rate)
      s.rate = rate
    end
  end
  local fresh, reset, remaining = now, 0, 0
  if s.rate > 0 then
    local m, f = add(s.m, s.f, im, if_, rate)
    if f > 0 then m = m + 1 end
    fresh = m
    if capacity == 1 and fm then
      m, f = sub(fm, ff, lm, lf, rate)
    else
      m, f = add(s.m, s.f, am, af, rate)
    end
    if f > 0 then m = m + 1 end
    reset = m
  end
  if flags == 5 then
    value = pack('>Bi8I4I4', 128, s.m, s.f, rate) .. (s.tail or '')
    if s.own and s.own ~= rate then
      -- The counter is shared with a limit of another rate, which may need to
      -- know the last turn for longer.
      local left = call('PTTL', key)
      if left > 0 and now + left * 1000 > fresh then fresh = now + left * 1000 end
    end
  end
  local m, f = tail()
  if not less(latest, latest_f, m, f) then
    m, f = sub(latest, latest_f, m, f, rate)
    remaining = count(m, f, period, rate, im, if_) + 1
    if remaining > capacity then remaining = capacity end
  elseif fm and not less(latest, latest_f, fm, ff) then
    remaining = 1
  end
  return flags, remaining, x, reset, xf, value, fresh
end

--@ leaky_bucket_refund
-- Gives back n turns of a call that never left. The packed argument ends with
-- the call's first turn, i8 and I4, in parts of the rate of the limit that gave
-- it, and its cost I4. Without them (a credit) the tail moves back by n turns, at
-- most to where nothing waits.
local FREED = 1024

local function settle(s, turns, im, if_, rate)
  local n = #turns
  while n > 0 and not less(turns[n][1], turns[n][2], s.m, s.f) do
    if turns[n][1] == s.m and turns[n][2] == s.f then
      s.m, s.f = sub(s.m, s.f, im, if_, rate)
    end
    turns[n], n = nil, n - 1
  end
end

local function encode(s, turns, rate)
  if s.m < -LONG then s.m, s.f = -LONG, 0 end
  local out = { pack('>Bi8I4I4', 128, s.m, s.f, rate) }
  for i = 1, #turns do out[i + 1] = pack('>I7I4', turns[i][1], turns[i][2]) end
  return true, table.concat(out)
end

local function insert(turns, m, f)
  local i = #turns
  while i > 0 and less(m, f, turns[i][1], turns[i][2]) do i = i - 1 end
  if i > 0 and turns[i][1] == m and turns[i][2] == f then return end
  table.insert(turns, i + 1, { m, f })
end

local function refund(now, key, p, n, at)
  local _, _, _, old, period = unpack('>BI5I5I4I7', p)
  local oim = floor(period / old)
  local oif = period - oim * old
  local v = call('GET', key)
  if not v or old == 0 or at and n == 0 then return true end
  if #v < 17 then return nil, v end
  -- A receipt is judged in the rate of the state, a credit in its own.
  local _, _, _, rate = unpack('>Bi8I4I4', v)
  if not at then rate = old end
  local s, bad = open_bucket(now, key, rate)
  if not s then return nil, bad end
  local im = floor(period / rate)
  local if_ = period - im * rate
  local turns = {}
  for o = 1, #s.tail, 11 do
    local m, f = unpack('>I7I4', s.tail, o)
    turns[#turns + 1] = { m, f }
  end

  if not at then
    local m, f = sub(now, 0, im, if_, rate) -- idle: a turn given now has come
    if less(s.m, s.f, m, f) then return encode(s, turns, rate) end
    m, f = sub(s.m, s.f, m, f, rate)
    local bm, bf = span(n, im, if_, rate)
    if not less(m, f, bm, bf) then m, f = bm, bf end
    s.m, s.f = sub(s.m, s.f, m, f, rate)
    settle(s, turns, im, if_, rate)
    return encode(s, turns, rate)
  end

  local tm, tf, cost = unpack('>i8I4I4', p, #p - 15)
  local function turn(k) -- the call's k-th turn, in the rate of the state
    local m, f = span(k, oim, oif, old)
    m, f = add(tm, tf, m, f, old)
    return rebase(m, f, old, rate)
  end
  local m, f = turn(cost - 1)
  if m == s.m and f == s.f then
    m, f = span(n, im, if_, rate)
    s.m, s.f = sub(s.m, s.f, m, f, rate)
    settle(s, turns, im, if_, rate)
    return encode(s, turns, rate)
  end
  if n > FREED then n = FREED end
  for k = cost, 1, -1 do
    if n == 0 or #turns >= FREED then break end
    m, f = turn(k - 1)
    local c = m
    if f > 0 then c = c + 1 end
    if c < now or not less(m, f, s.m, s.f) then break end
    insert(turns, m, f)
    n = n - 1
  end
  return encode(s, turns, rate)
end
