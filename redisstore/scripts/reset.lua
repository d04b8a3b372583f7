-- Makes a counter fresh and tells every instance.
--
-- KEYS[1]  the counter
-- ARGV[1]  the channel on which other instances learn to ask again
--
-- Reply: how many keys went. Why a script: whoever hears of it must find it done.

--@ reset
local gone = redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], KEYS[1])
return gone
