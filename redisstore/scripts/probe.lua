-- Asked once when a connection is made, before it is used.
--
-- KEYS[1]  a key that nobody uses
--
-- probe fails where the server cannot be written to: it is a replica, or its
-- disk is full. clock fails where the server does not tell scripts the time.

--@ probe
return redis.call('DEL', KEYS[1])
--@ clock
return redis.call('TIME')[1]
