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
-- 1024. While somebody waits in a fair queue the version is 129, and I2 tells before
-- the cancelled turns how many they are; behind them is whose the turns are that
-- lie ahead, earliest first, at most 1024: the microsecond at which the call leaves
-- I7, and eight bytes of a hash.
--
-- Packed argument: algorithm B, cost I5, capacity I5, rate I4, period in
-- microseconds I7, and as instants with a fraction, I7 and I4 each: the interval
-- between turns; how far ahead a turn may lie; the length of cost - 1 intervals;
-- the length of capacity intervals less how far ahead a turn may lie. Then, for a
-- call that knows of turns given elsewhere, its least delay in microseconds, I7:
-- the bucket is as if the turn one interval before that had been given. Then, for a
-- call that waits for somebody in a fair queue, eight bytes of a hash of who it is.
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

local function ceil(m, f)
  if f > 0 then return m + 1 end
  return m
end

-- open_bucket reads the state, with its fractions in the rate of the limit: tail is
-- the freed turns that still lie ahead, freed how many they are, held whose the
-- turns are that do.
local function open_bucket(now, key, rate)
  local v = call('GET', key)
  if not v then return { rate = 0, freed = 0, held = '' } end
  if #v < 17 then return nil, v end
  local version, m, f, own = unpack('>Bi8I4I4', v)
  local from, to = 18, #v
  if version == 129 and #v >= 19 then
    from, to = 20, 19 + 11 * unpack('>I2', v, 18)
    if to > #v or (#v - to) % 15 ~= 0 then return nil, v end
  elseif version ~= 128 or (#v - 17) % 11 ~= 0 then
    return nil, v
  end
  local held = to + 1
  while held < #v and unpack('>I7', v, held) <= now do held = held + 15 end
  while from < to do
    if ceil(unpack('>I7I4', v, from)) >= now then break end
    from = from + 11
  end
  local tail = v:sub(from, to)
  if own ~= rate then
    m, f = rebase(m, f, own, rate)
    local turns = {}
    for o = 1, #tail, 11 do
      local tm, tf = unpack('>I7I4', tail, o)
      turns[#turns + 1] = pack('>I7I4', rebase(tm, tf, own, rate))
    end
    tail = table.concat(turns)
  end
  return { m = m, f = f, rate = rate, own = own, tail = tail, freed = #tail / 11, held = v:sub(held) }
end

local function write_bucket(m, f, rate, tail, held)
  if held == '' then return pack('>Bi8I4I4', 128, m, f, rate) .. tail end
  return pack('>Bi8I4I4I2', 129, m, f, rate, #tail / 11) .. tail .. held
end

-- What follows is the twin of algorithm/fair.go.
local HELD = 1024

-- share gives how many owners wait, the one who asks included, and how many turns
-- are its own.
local function share(held, owner)
  local seen, values, mine = {}, 1, 0
  for o = 8, #held, 15 do
    local who = held:sub(o, o + 7)
    if who == owner then
      mine = mine + 1
    elseif not seen[who] then
      seen[who], values = true, values + 1
    end
  end
  return values, mine
end

local function most(capacity, values)
  local n = floor(capacity / (values + 1))
  if n < 1 then return 1 end
  if n > HELD then return HELD end
  return n
end

-- earliest gives the first instant from which the share allows a call, if nobody
-- else calls and its first turn at the tail is at turn.
local function earliest(held, owner, capacity, values, mine, now, turn, cost)
  local left, at, o = {}, now, 1
  for e = 8, #held, 15 do
    local who = held:sub(e, e + 7)
    left[who] = (left[who] or 0) + 1
  end
  while true do
    while o < #held and unpack('>I7', held, o) <= at do
      local who = held:sub(o + 7, o + 14)
      left[who] = left[who] - 1
      if who == owner then
        mine = mine - 1
      elseif left[who] == 0 then
        values = values - 1
      end
      o = o + 15
    end
    local waits = cost
    if turn <= at then waits = cost - 1 end
    if waits == 0 or mine + waits <= most(capacity, values) then return at end
    local leaves = o < #held and unpack('>I7', held, o)
    if leaves and (turn <= at or leaves < turn) then
      at = leaves
    elseif turn > at then
      at = turn
    else
      return at
    end
  end
end

-- hold adds the turns of a call that do not come at once; each goes behind those
-- that leave at the same microsecond.
local function hold(held, owner, now, m, f, cost, im, if_, rate)
  local list = nil
  for k = 0, cost - 1 do
    local sm, sf = span(k, im, if_, rate)
    local at = ceil(add(m, f, sm, sf, rate))
    local n = #held
    if at <= now then
    elseif not list and (n == 0 or unpack('>I7', held, n - 14) <= at) then
      held = held .. pack('>I7', at) .. owner
    else
      if not list then
        list = {}
        for o = 1, n, 15 do list[#list + 1] = held:sub(o, o + 14) end
      end
      local i = #list
      while i > 0 and unpack('>I7', list[i]) > at do i = i - 1 end
      table.insert(list, i + 1, pack('>I7', at) .. owner)
    end
  end
  if list then held = table.concat(list) end
  return held:sub(-HELD * 15)
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

  -- A refund has its receipt there, which is longer than all of these.
  local owner = #p == 74 and p:sub(67) or #p == 81 and p:sub(74)
  if #p == 73 or #p == 81 then
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

  local values, mine = 1, 0
  if owner then values, mine = share(s.held, owner) end
  -- waits gives how many of n turns from this one on do not come at once; allows
  -- says whether the owner may have them.
  local function waits(m, f, n)
    if ceil(m, f) > now then return n end
    return n - 1
  end
  local function allows(m, f, n)
    n = waits(m, f, n)
    return not owner or n == 0 or mine + n <= most(capacity, values)
  end

  local flags, x, xf, value = 0, 0, 0, nil
  if cost > capacity or owner and cost > 1 and cost - 1 > most(capacity, 1) then
    flags = 2
  elseif cost == 0 then
    flags = 1
  elseif cost == 1 and fm and not less(latest, latest_f, fm, ff) and allows(fm, ff, 1) then
    flags, x, xf = 5, fm, ff
    s.tail, s.freed, fm = s.tail:sub(12), s.freed - 1, nil
    if s.freed > 0 then fm, ff = unpack('>I7I4', s.tail) end
  else
    -- The first turn must lie this far ahead at most for the last to fit. Asking so
    -- keeps sums below 2^53: the last turn of a call that does not fit may lie
    -- beyond it.
    local ahead, ahead_f = sub(lm, lf, cm, cf, rate)
    local first, first_f = tail()
    if less(now + ahead, ahead_f, first, first_f) or not allows(first, first_f, cost) then
      local retry = now
      if owner then retry = earliest(s.held, owner, capacity, values, mine, now, ceil(first, first_f), cost) end
      if cost == 1 and fm then
        first, first_f = fm, ff
        if ceil(fm, ff) < retry then retry = ceil(fm, ff) end
      end
      x = ceil(sub(first, first_f, ahead, ahead_f, rate))
      if x < retry then x = retry end
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
    if owner then
      s.held = hold(s.held, owner, now, x, xf, cost, im, if_, rate)
      mine = mine + waits(x, xf, cost)
    end
    value = write_bucket(s.m, s.f, rate, s.tail or '', s.held)
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
  end
  m, f = tail()
  if owner then
    local more = most(capacity, values) - mine
    if more < 0 then more = 0 end
    if ceil(m, f) <= now then more = more + 1 end
    if more < remaining then remaining = more end
  end
  if remaining == 0 and fm and not less(latest, latest_f, fm, ff) and allows(fm, ff, 1) then
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
  local out = {}
  for i = 1, #turns do out[i] = pack('>I7I4', turns[i][1], turns[i][2]) end
  return true, write_bucket(s.m, s.f, rate, table.concat(out), s.held)
end

-- let_go forgets whose one turn was.
local function let_go(held, at)
  for o = 1, #held, 15 do
    local t = unpack('>I7', held, o)
    if t == at then return held:sub(1, o - 1) .. held:sub(o + 15) end
    if t > at then break end
  end
  return held
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
    while #s.held > 0 and unpack('>I7', s.held, #s.held - 14) > ceil(s.m, s.f) do
      s.held = s.held:sub(1, -16)
    end
    return encode(s, turns, rate)
  end

  local tm, tf, cost = unpack('>i8I4I4', p, #p - 15)
  local function given(k) -- the call's k-th turn
    local m, f = span(k, oim, oif, old)
    return add(tm, tf, m, f, old)
  end
  local function turn(k) -- the same in the rate of the state
    local m, f = given(k)
    return rebase(m, f, old, rate)
  end
  for k = cost - 1, cost - n, -1 do
    if k < 0 or #s.held == 0 or cost - k > HELD + 1 then break end
    s.held = let_go(s.held, ceil(given(k)))
  end
  local m, f = turn(cost - 1)
  if m == s.m and f == s.f then
    if n > cost then n = cost end
    m, f = turn(cost - n)
    s.m, s.f = sub(m, f, im, if_, rate)
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
