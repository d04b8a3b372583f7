-- caudal decides for HAProxy. The address of caudal comes from the environment:
--
--   setenv CAUDAL_ADDRESS 127.0.0.1:8080
--   lua-load /etc/haproxy/caudal.lua
--
-- The action lua.caudal asks once per request and sets txn.caudal_status to the
-- status that the client should get (200: pass). When there is no decision it sets
-- nothing, and the request passes. core.tcp is used because it fails at once on a
-- closed port, where httpclient tries again for seconds.

local host, port = (os.getenv("CAUDAL_ADDRESS") or "127.0.0.1:8080"):match("^(.*):(%d+)$")
port = tonumber(port)

local timeout = 0.03 -- seconds, for each step; max_hold is less
local target = "/v1/authorize?headers=forwarded&max_hold=15ms"

-- Headers of the client that are not passed on: those that speak about the
-- connection or the body, and those that are set here.
local dropped = {
  ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true, ["te"] = true,
  ["upgrade"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["trailer"] = true, ["host"] = true,
  ["x-forwarded-for"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true,
}

local wanted = {
  ["caudal-status"] = "txn.caudal_status", ["retry-after"] = "txn.caudal_retry_after",
  ["x-ratelimit-limit"] = "txn.caudal_limit", ["x-ratelimit-remaining"] = "txn.caudal_remaining",
  ["x-ratelimit-reset"] = "txn.caudal_reset",
}

local function question(txn)
  local hostname = txn.sf:req_hdr("host") or ""
  local lines = {
    "GET " .. target .. " HTTP/1.1", "Host: " .. (hostname ~= "" and hostname or "caudal"), "Connection: close",
    "X-Forwarded-For: " .. txn.sf:src(), "X-Forwarded-Method: " .. txn.sf:method(),
    "X-Forwarded-Uri: " .. txn.sf:pathq(), "X-Forwarded-Host: " .. hostname,
  }
  for name, values in pairs(txn.http:req_get_headers()) do
    if not dropped[name] then
      for _, value in pairs(values) do
        lines[#lines + 1] = name .. ": " .. value
      end
    end
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- answer reads the header of the answer. It gives nothing when it breaks off.
local function answer(socket)
  local status = socket:receive("*l")
  if not status then return nil end
  local found = {}
  while true do
    local line = socket:receive("*l")
    if not line then return nil end
    line = line:gsub("\r$", "")
    if line == "" then return found end
    local name, value = line:match("^([^:]+):%s*(.-)%s*$")
    local variable = name and wanted[name:lower()]
    if variable then found[variable] = value end
  end
end

local function ask(txn)
  local socket = core.tcp()
  socket:settimeout(timeout)
  local found
  if socket:connect(host, port) and socket:send(question(txn)) then
    found = answer(socket)
  end
  socket:close()
  if found and found["txn.caudal_status"] then
    for variable, value in pairs(found) do txn:set_var(variable, value) end
  end
end

core.register_action("caudal", { "http-req" }, function(txn)
  local fine, why = pcall(ask, txn)
  if not fine then txn:Warning("caudal: " .. tostring(why)) end
end, 0)
