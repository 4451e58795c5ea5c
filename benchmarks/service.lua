-- What wrk sends for service.py: each request is for other units. At the end it prints the number of requests, the
-- microseconds, the number that failed, and the microseconds below which 99 of 100 took.
local first, batch, n = os.getenv("FIRST"), tonumber(os.getenv("BATCH")), 0
local head = {
  Authorization = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json", Host = "localhost",
}

function request()
  n = n + 1
  if batch == 0 then return wrk.format("POST", nil, head, '{"unit":"' .. first .. n .. '"}') end
  local names = {}
  for i = 1, batch do names[i] = '"' .. first .. n .. '-' .. i .. '"' end
  return wrk.format("POST", nil, head, '{"units":[' .. table.concat(names, ",") .. ']}')
end

function done(all, times)
  local wrong = all.errors
  local failed = wrong.status + wrong.connect + wrong.read + wrong.write + wrong.timeout
  io.write(string.format("\n%d %d %d %d\n", all.requests, all.duration, failed, times:percentile(99)))
end
