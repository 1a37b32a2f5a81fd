-- Decides about one attempt, or ends one, in a single step of the server. The rules are those of memory.rs and
-- rules.rs, which explain them; a test holds both to the same answers.
--
-- RULES and REMEMBER, REMEMBER_ADDRESS, LEASE, NAMES stand before this text. Times are in microseconds.
-- KEYS: the counters of the attempt, in the order in which they are named by the kind.
-- ARGV: "reserve" or "settle", kind, ticket, account, time ("" = the server's), and then
--   reserve: proven, take (1 or 0);  settle: outcome.
-- Answers a reservation with {what, place of the counter, microseconds, severity}.

local STEPS = 8

local kind, ticket, account = ARGV[2], ARGV[3], ARGV[4]
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- One counter: h newest step, w failures {step, count} with the oldest first, l time of the last failure,
-- s suspicious until, f attempts in flight {ticket, end of lease, account or false}, d failed accounts {account, step}.
local function open(i)
  local rule = RULES[NAMES[kind][i]]
  local raw = redis.call('GET', KEYS[i])
  local c = raw and cmsgpack.unpack(raw) or { h = 0, w = {}, l = 0, s = 0, f = {}, d = {} }
  c.key, c.rule = KEYS[i], rule
  c.h = math.max(c.h, math.floor(now / rule.step))
  local w, f, d = {}, {}, {}
  for _, one in ipairs(c.w) do
    if one[1] >= c.h - STEPS then w[#w + 1] = one end
  end
  for _, one in ipairs(c.f) do
    if one[2] > now then f[#f + 1] = one end
  end
  for _, one in ipairs(c.d) do
    if c.h - one[2] <= STEPS then d[#d + 1] = one end
  end
  c.w, c.f, c.d = w, f, d
  return c
end

local function close(c)
  local life = c.s - now
  if #c.w > 0 or #c.d > 0 then
    life = math.max(life, (c.h + STEPS + 1) * c.rule.step - now)
  end
  for _, one in ipairs(c.f) do
    life = math.max(life, one[2] - now)
  end
  if life <= 0 then
    redis.call('DEL', c.key)
  else
    local kept = { h = c.h, w = c.w, l = c.l, s = c.s, f = c.f, d = c.d }
    redis.call('SET', c.key, cmsgpack.pack(kept), 'PX', string.format('%.0f', math.ceil(life / 1000)))
  end
end

local function failures(c)
  local n = 0
  for _, one in ipairs(c.w) do n = n + one[2] end
  return n
end

local function add_failure(c)
  local newest = c.w[#c.w]
  if newest and newest[1] == c.h then
    newest[2] = newest[2] + 1
  else
    c.w[#c.w + 1] = { c.h, 1 }
  end
  c.l = now
end

local function until_step(c, step)
  return math.max(step * c.rule.step - now, 0)
end

-- The time until fewer than so many failures count.
local function until_below(c, limit)
  local left = failures(c)
  for _, one in ipairs(c.w) do
    left = left - one[2]
    if left < limit then return until_step(c, one[1] + STEPS + 1) end
  end
  return 0
end

local function has_failed(c, who)
  for _, one in ipairs(c.d) do
    if one[1] == who then return one end
  end
end

-- Accounts that failed or are in flight, and whether this one is among them.
local function accounts(c, who)
  local seen, n = {}, 0
  for _, one in ipairs(c.d) do
    if not seen[one[1]] then seen[one[1]], n = true, n + 1 end
  end
  for _, one in ipairs(c.f) do
    if one[3] and not seen[one[3]] then seen[one[3]], n = true, n + 1 end
  end
  return n, seen[who] or false
end

local function standing(c, proven)
  local rule, n = c.rule, failures(c)
  if rule.first then -- the growing delay of an account
    if n < rule.failures then
      return n + #c.f < rule.failures and 'room' or 'held'
    end
    local delay = math.min(rule.first * 2 ^ math.min(n - rule.failures, 60), rule.longest)
    if proven then delay = math.min(delay, rule.proven) end
    if c.l + delay > now then return 'over', c.l + delay - now end
    return #c.f == 0 and 'room' or 'held'
  end
  if n >= rule.failures then return 'over', until_below(c, rule.failures) end
  if rule.accounts > 0 then
    if #c.d >= rule.accounts then
      local oldest = c.h
      for _, one in ipairs(c.d) do oldest = math.min(oldest, one[2]) end
      return 'over', until_step(c, oldest + STEPS + 1)
    end
    local others, known = accounts(c, account)
    if others + (known and 0 or 1) > rule.accounts then return 'held' end
  end
  return n + #c.f < rule.failures and 'room' or 'held'
end

local function severity(c)
  local limit = c.rule.failures
  if limit == ANY then limit = c.rule.accounts end
  return math.floor(math.max(failures(c) - limit, 0) / math.max(math.floor(limit / 4), 1))
end

local function enter(c)
  local who = false
  if c.rule.accounts > 0 then
    local n, known = accounts(c, account)
    who = (known or n < c.rule.accounts) and account or false
  end
  c.f[#c.f + 1] = { ticket, now + LEASE, who }
end

local function leave(c, failed)
  local known = c.rule.accounts > 0 and select(2, accounts(c, account))
  local found = false
  for i, one in ipairs(c.f) do
    if one[1] == ticket then
      table.remove(c.f, i)
      found = true
      break
    end
  end
  if not failed then return end
  add_failure(c)
  local before = has_failed(c, account)
  if before then
    before[2] = c.h
  elseif known or (not found and #c.d < c.rule.accounts) then
    c.d[#c.d + 1] = { account, c.h }
  end
end

local all = {}
for i = 1, #KEYS do all[i] = open(i) end

local function reserve(standings)
  for i = 1, #all do
    if standings[i] == 'held' then return { 'held', i, 0, 0 } end
  end
  if ARGV[7] == '1' then
    for _, c in ipairs(all) do
      enter(c)
      close(c)
    end
  end
  return { 'room', 0, 0, 0 }
end

local function over(i, wait)
  return { 'over', i, string.format('%.0f', wait), 0 }
end

local function sign_up()
  local c = all[1]
  if failures(c) >= c.rule.failures then return over(1, until_below(c, c.rule.failures)) end
  add_failure(c)
  close(c)
  return { 'room', 0, 0, 0 }
end

local function marked()
  local standings = {}
  for i, c in ipairs(all) do
    local wait
    standings[i], wait = standing(c)
    if standings[i] == 'over' then return over(i, wait) end
  end
  return reserve(standings)
end

local function log_in()
  local proven = ARGV[6] == '1'
  local standings, waits = {}, { 0, 0, 0, 0 }
  for i, c in ipairs(all) do
    local wait
    standings[i], wait = standing(c, proven)
    waits[i] = wait or 0
  end
  if standings[1] == 'over' then return over(1, waits[1]) end
  if proven then
    if standings[2] == 'over' then return over(2, waits[2]) end
    return reserve({ standings[1], standings[2] })
  end
  if REMEMBER > 0 then
    local left = { [2] = waits[2] }
    for _, i in ipairs({ 3, 4 }) do
      left[i] = all[i] and math.max(all[i].s - now, waits[i]) or 0
    end
    for _, i in ipairs({ 3, 2, 4 }) do
      if left[i] > 0 then
        local work = 0
        for j = 2, #all do work = math.max(work, severity(all[j])) end
        return { 'suspicious', i, string.format('%.0f', math.max(left[i], left[2], left[4])), work }
      end
    end
  end
  for i = 2, #all do
    if standings[i] == 'over' then return over(i, waits[i]) end
  end
  return reserve(standings)
end

if ARGV[1] == 'reserve' then
  if kind == 'sign_up' then return sign_up() end
  if kind == 'marked' then return marked() end
  return log_in()
end

local outcome = ARGV[6]
if kind == 'sign_up' then
  local c = all[1]
  local newest = c.w[#c.w]
  if outcome == 'cancelled' and newest then
    newest[2] = newest[2] - 1
    if newest[2] == 0 then table.remove(c.w) end
  end
else
  for _, c in ipairs(all) do leave(c, outcome == 'failure') end
  if outcome == 'success' then all[1].w = {} end
  if kind == 'log_in' and outcome == 'failure' and REMEMBER > 0 then
    for i = 2, #all do
      local c = all[i]
      local rule = c.rule
      local is_over = failures(c) >= rule.failures or (rule.accounts > 0 and #c.d >= rule.accounts)
      if is_over then c.s = now + (i == 3 and REMEMBER_ADDRESS or REMEMBER) end
    end
  end
end
for _, c in ipairs(all) do close(c) end
return 1
