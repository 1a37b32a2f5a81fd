-- Takes a token from each bucket, or from none, in a single step of the server.
-- KEYS: the buckets. ARGV: interval and full time of each in microseconds.
-- A key holds the time at which its bucket is full. Answers {over (0 or 1), microseconds until each is full}.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local before, over = {}, 0
for i, key in ipairs(KEYS) do
  before[i] = math.max(tonumber(redis.call('GET', key) or 0), now)
  if before[i] + tonumber(ARGV[2 * i - 1]) - now > tonumber(ARGV[2 * i]) then over = 1 end
end

local answer = { over }
for i, key in ipairs(KEYS) do
  local full_at = before[i]
  if over == 0 then
    full_at = full_at + tonumber(ARGV[2 * i - 1])
    local life = math.ceil((full_at - now) / 1000)
    redis.call('SET', key, string.format('%.0f', full_at), 'PX', string.format('%.0f', life))
  end
  answer[i + 1] = string.format('%.0f', full_at - now)
end
return answer
