-- Likes in Valkey: one part of the stream, with the articles whose likes go through it.
--
-- KEYS[1]: a hash about the part. All other keys begin with it, so that they are on the same server of a cluster:
--   :stream            entries "article:user:0|1", each with the state that a pair has from then on
--   :<gen>:<article>   a hash: c = the count of likes, l = the newest entry, and for each user the state, 0 or 1
--   :gone:<article>    for a while after an article was found deleted
-- The hash has gen, the generation, which changes when the server has lost something; last, the newest entry; kept,
-- the newest entry that the server had when the generation began.
--
-- ARGV: what, then
--   change  floor candidate most generation {article user change liked count}...
--   look    floor candidate article user
--   about   floor candidate: how many entries wait
--   folded  position {article entry count}...
-- What the tables say of a pair, liked and count, is empty where nobody has looked, and holds for that generation.
-- Answers {gen, last, kept, ...}: of each change {what, count, liked, entry}.
--
-- An entry is named by the microsecond in which it was made; entries never go back, whatever the clock does.

local part = KEYS[1]
local what = ARGV[1]
local HOUR, WEEK = 3600, 604800

local function text(number) return string.format('%.0f', number) end

local function state()
  local found = redis.call('HMGET', part, 'gen', 'last', 'kept')
  return found[1], tonumber(found[2] or '0'), found[3] or '0'
end

if what == 'folded' then
  local gen = state()
  redis.call('XTRIM', part .. ':stream', 'MINID', text(tonumber(ARGV[2]) + 1))
  for i = 3, #ARGV, 3 do
    local article, entry, count = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local key = part .. ':' .. (gen or '') .. ':' .. article
    if count == '' then
      -- A look that began before the article was deleted must not bring it back.
      redis.call('SET', part .. ':gone:' .. article, 1, 'EX', 60)
      redis.call('DEL', key)
    elseif redis.call('HGET', key, 'l') == entry then
      -- Nothing is under way: the table is right, whoever else has written to it.
      redis.call('HSET', key, 'c', count)
      redis.call('EXPIRE', key, HOUR)
    end
  end
  return 1
end

local floor = tonumber(ARGV[2])
local gen, last, kept = state()
if not gen or last < floor then
  -- The server knows less than this node: it has lost something, or it is an old copy.
  gen, kept, last = ARGV[3], text(last), math.max(last, floor)
  redis.call('HSET', part, 'gen', gen, 'last', text(last), 'kept', kept)
end

if what == 'about' then
  return { gen, text(last), kept, text(redis.call('XLEN', part .. ':stream')) }
end

if what == 'look' then
  local key = part .. ':' .. gen .. ':' .. ARGV[4]
  local found = redis.call('HMGET', key, 'c', ARGV[5])
  return { gen, text(last), kept, found[1] or '', found[2] or '' }
end

local most, base = tonumber(ARGV[4]), ARGV[5] == gen
local length = redis.call('XLEN', part .. ':stream')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local before = last
local answers = {}

local function change(article, user, wish, looked_liked, looked_count)
  local key = part .. ':' .. gen .. ':' .. article
  local found = redis.call('HMGET', key, 'c', user)
  local count, liked = found[1], found[2]
  if not count or not liked then
    if not base or looked_liked == '' then return 'ask', '', '', '' end
    if redis.call('EXISTS', part .. ':gone:' .. article) == 1 then return 'gone', '', '', '' end
    liked = liked or looked_liked
    if not count then
      count = looked_count
      redis.call('HSET', key, 'c', count, user, liked)
      redis.call('EXPIRE', key, HOUR)
    end
  end
  local state = wish == 'toggle' and (liked == '1' and '0' or '1') or wish
  if state == liked then
    if not found[2] then redis.call('HSET', key, user, liked) end
    return 'same', count, liked, ''
  end
  if length >= most then return 'full', '', '', '' end
  length = length + 1
  last = math.max(now, last + 1)
  local entry = text(last)
  redis.call('XADD', part .. ':stream', entry .. '-0', 'l', article .. ':' .. user .. ':' .. state)
  count = text(math.max(tonumber(count) + (state == '1' and 1 or -1), 0))
  redis.call('HSET', key, 'c', count, 'l', entry, user, state)
  redis.call('EXPIRE', key, WEEK)
  return 'done', count, state, entry
end

for i = 6, #ARGV, 5 do
  local at = #answers
  answers[at + 1], answers[at + 2], answers[at + 3], answers[at + 4] =
    change(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
if last ~= before then redis.call('HSET', part, 'last', text(last)) end
local all = { gen, text(last), kept }
for _, one in ipairs(answers) do all[#all + 1] = one end
return all
