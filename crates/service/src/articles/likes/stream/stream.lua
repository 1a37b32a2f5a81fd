-- Likes in Valkey: parts of the stream, each with the articles whose likes go through it.
--
-- KEYS: a hash for each part of the call. In a cluster, where a call is about one part, also the other keys of the call:
-- while the cluster moves keys, a server that has only some of them then refuses the call. All keys of a part begin with
-- that of its hash, which contains their hash tag:
--   :stream            entries "article:user:0|1", each with the new state of a pair
--   :<gen>:<article>   a hash: c = the count of likes, l = the newest entry, and for each user the state, 0 or 1; with f,
--                      a user who is not in it does not like the article
--   :gone:<article>    for a while after an article was found deleted
-- The hash has gen, the generation, which changes when the server has lost data; last, the newest entry; kept, the newest
-- entry that the server had when the generation began.
--
-- ARGV: the action, a name for a new generation, the number of parts, and for each part the newest entry known to the
-- node, the number of arguments that follow, and these:
--   change  most ("" without a stream) generation {article user change liked count all}...
--   look    {article user}...; answers {count, liked} of each
--   about   nothing; answers the number of waiting entries
--   read    after most; answers entries
--   folded  position {article entry count}...
-- liked, count and all users who like the article ("7,9,", or "?" if they are many) are the state in the tables. They are
-- empty if it was not read, and hold for that generation.
-- Answers for each part {gen, last, kept, ...}: of each change {result, count, liked, entry}.
--
-- An entry is named by the microsecond of its creation; entries never go back, whatever the clock does.

local what, candidate = ARGV[1], ARGV[2]
local HOUR, WEEK = 3600, 604800

local function text(number) return string.format('%.0f', number) end

local acts = {}

function acts.look(p, word, words)
  for i = 1, words, 2 do
    local found = redis.call('HMGET', p.key .. ':' .. p.gen .. ':' .. word(i), 'c', word(i + 1), 'f')
    p.say(found[1] or '')
    p.say(found[2] or (found[3] and '0') or '')
  end
end

function acts.about(p)
  p.say(text(redis.call('XLEN', p.key .. ':stream')))
end

function acts.read(p, word)
  local entries = redis.call('XRANGE', p.key .. ':stream', '(' .. word(1) .. '-0', '+', 'COUNT', word(2))
  for _, entry in ipairs(entries) do
    p.say(entry[1])
    p.say(entry[2][2] or '')
  end
end

function acts.folded(p, word, words)
  redis.call('XTRIM', p.key .. ':stream', 'MINID', text(tonumber(word(1)) + 1))
  for i = 2, words, 3 do
    local article, entry, count = word(i), word(i + 1), word(i + 2)
    local key = p.key .. ':' .. p.gen .. ':' .. article
    if count == '' then
      -- A read that began before the article was deleted must not bring it back.
      redis.call('SET', p.key .. ':gone:' .. article, 1, 'EX', 60)
      redis.call('DEL', key)
    elseif redis.call('HGET', key, 'l') == entry then
      -- No newer entry: the count in the table is right, also after a write by somebody else.
      redis.call('HSET', key, 'c', count)
      redis.call('EXPIRE', key, HOUR)
    end
  end
end

-- Returns the result, the count, the state, and the new entry.
local function change(p, article, user, wish, looked_liked, looked_count, looked_all)
  local key = p.key .. ':' .. p.gen .. ':' .. article
  local found = redis.call('HMGET', key, 'c', user, 'f')
  local count, liked = found[1], found[2] or (found[3] and '0')
  if not count or not liked then
    if not p.is_base or looked_liked == '' then return 'ask', '', '', '' end
    if not count then
      if redis.call('EXISTS', p.key .. ':gone:' .. article) == 1 then return 'gone', '', '', '' end
      count = looked_count
      local fields = { 'c', count }
      if looked_all ~= '?' then
        fields = { 'c', count, 'f', 1 }
        for one in string.gmatch(looked_all, '%d+') do
          fields[#fields + 1] = one
          fields[#fields + 1] = 1
        end
      end
      redis.call('HSET', key, unpack(fields))
      redis.call('EXPIRE', key, HOUR)
    end
    liked = liked or looked_liked
  end
  local state = wish == 'toggle' and (liked == '1' and '0' or '1') or wish
  if state == liked then
    if not found[2] and not found[3] then redis.call('HSET', key, user, liked) end
    return 'same', count, liked, ''
  end
  if p.most and p.length >= p.most then return 'full', '', '', '' end
  p.length = p.length + 1
  p.last = math.max(p.now, p.last + 1)
  local entry = text(p.last)
  if p.most then
    redis.call('XADD', p.key .. ':stream', entry .. '-0', 'l', article .. ':' .. user .. ':' .. state)
  end
  count = text(math.max(tonumber(count) + (state == '1' and 1 or -1), 0))
  redis.call('HSET', key, 'c', count, 'l', entry, user, state)
  redis.call('EXPIRE', key, WEEK)
  return 'done', count, state, entry
end

function acts.change(p, word, words)
  local time = redis.call('TIME')
  p.now = time[1] * 1000000 + time[2]
  p.most, p.is_base = tonumber(word(1)), word(2) == p.gen
  p.length = redis.call('XLEN', p.key .. ':stream')
  local before = p.last
  for i = 3, words, 6 do
    local outcome, count, liked, entry =
      change(p, word(i), word(i + 1), word(i + 2), word(i + 3), word(i + 4), word(i + 5))
    p.say(outcome)
    p.say(count)
    p.say(liked)
    p.say(entry)
  end
  if p.last ~= before then redis.call('HSET', p.key, 'last', text(p.last)) end
end

local answers, at = {}, 4
for part = 1, tonumber(ARGV[3]) do
  local key = KEYS[part]
  local floor, words = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local found = redis.call('HMGET', key, 'gen', 'last', 'kept')
  local p = { key = key, gen = found[1], last = tonumber(found[2] or '0'), said = {} }
  local kept = found[3] or '0'
  if not p.gen or p.last < floor then
    -- The server is behind this node: it has lost data, or it is an old copy.
    p.gen, kept, p.last = candidate, text(p.last), math.max(p.last, floor)
    redis.call('HSET', key, 'gen', p.gen, 'last', text(p.last), 'kept', kept)
  end
  function p.say(word) p.said[#p.said + 1] = word end
  local first = at + 1
  acts[what](p, function(i) return ARGV[first + i] end, words)
  local answer = { p.gen, text(p.last), kept }
  for _, word in ipairs(p.said) do answer[#answer + 1] = word end
  answers[part] = answer
  at = at + 2 + words
end
return answers
