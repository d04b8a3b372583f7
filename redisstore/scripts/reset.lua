-- Makes a counter fresh and tells every instance.
--
-- KEYS[1]  the counter
-- ARGV[1]  the channel on which other instances learn to ask again; the key with a
--          ! before it says that leases of it are void
-- ARGV[2]  1: a token bucket. What is leased from it is still out, and stays so
--
-- Reply: how many keys went. Why a script: whoever hears of it must find it done.

--@ reset
local gone
local v = ARGV[2] == '1' and redis.call('GET', KEYS[1])
if v and #v > 16 then
  gone = 1
  redis.call('SET', KEYS[1], v:sub(1, 7) .. string.rep('\0', 9) .. v:sub(17), 'KEEPTTL')
else
  gone = redis.call('DEL', KEYS[1])
end
redis.pcall('PUBLISH', ARGV[1], KEYS[1])
redis.pcall('PUBLISH', ARGV[1], '!' .. KEYS[1])
return gone
