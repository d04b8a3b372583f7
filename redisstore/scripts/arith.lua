-- Exact arithmetic on Lua's numbers, for the algorithms whose products do not
-- fit them.
--
-- Lua has one kind of number, a double, which is exact up to 2^53. Everything
-- here is a whole number from 0 to 2^53 - 1, and so is every value in between.
-- The operator % and floor(a / b) are exact for such numbers: a quotient that is
-- not whole lies further from the next whole number than a double can be off.
--
-- Not a script by itself: the loader puts the parts that a script names in front
-- of it.

--@ muldiv
-- muldiv(a, b, d) gives floor(a * b / d) and the remainder, for b < 2^36,
-- d <= 2^40, a < 2^53 and a quotient below 2^53. The whole part of a / d is taken
-- out first; what is left goes in by nine bits of b at a time, so that the
-- largest number on the way stays below 2^50.
local function muldiv(a, b, d)
  local r = a % d
  local whole = (a - r) / d * b
  local q, rest, shift = 0, 0, 134217728
  while shift >= 1 do
    local digit = floor(b / shift) % 512
    local t = rest * 512 + r * digit
    rest = t % d
    q = q * 512 + (t - rest) / d
    shift = shift / 512
  end
  return whole + q, rest
end
