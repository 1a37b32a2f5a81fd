-- Articles, their comments and likes. The content is in a table of its own so that lists never page it
-- in, and a like never writes it anew.
CREATE TABLE articles (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused: a deleted one's address stays dead
  author_id     INTEGER REFERENCES users (id) ON DELETE SET NULL,   -- null: its author is gone
  title         TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 100),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  -- Rows of this article below. Whoever adds or removes some there changes these in the same transaction.
  like_count    INTEGER NOT NULL DEFAULT 0 CHECK (like_count >= 0),
  comment_count INTEGER NOT NULL DEFAULT 0 CHECK (comment_count >= 0)
) STRICT;

CREATE INDEX articles_by_likes ON articles (like_count);    -- and by id within them
CREATE INDEX articles_by_author ON articles (author_id);   -- for the trigger on users

CREATE TABLE article_contents (
  article_id INTEGER PRIMARY KEY,
  content    TEXT    NOT NULL CHECK (length(content) BETWEEN 1 AND 10000)
) STRICT;

-- Comments and likes refer to their article by convention only: a foreign key that cascades would delete
-- a hundred thousand likes in one transaction, and every write would wait for it. An article that goes
-- is noted in `deleted_articles`, and what is left of it goes in small transactions.
CREATE TABLE article_comments (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  article_id    INTEGER NOT NULL,
  author_id     INTEGER REFERENCES users (id) ON DELETE SET NULL,
  content       TEXT    NOT NULL CHECK (length(content) BETWEEN 1 AND 1000),
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX article_comments_by_article ON article_comments (article_id);   -- and by id within it
CREATE INDEX article_comments_by_author ON article_comments (author_id);     -- for the trigger on users

CREATE TABLE article_likes (
  article_id INTEGER NOT NULL,
  user_id    INTEGER NOT NULL,
  PRIMARY KEY (article_id, user_id)
) STRICT, WITHOUT ROWID;

-- There is no index by user: only the trigger on users would want it, and each like of a batch would touch
-- another page of it. Deleting a user, which an operator does by hand, reads all likes instead.

-- Articles whose comments and likes still have to go. To count the likes there are, leave out theirs.
CREATE TABLE deleted_articles (
  id INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER articles_delete AFTER DELETE ON articles BEGIN
  DELETE FROM article_contents WHERE article_id = old.id;
  INSERT INTO deleted_articles VALUES (old.id);
END;

-- A user who goes leaves articles and comments behind, without a name, and takes the likes along. A trigger,
-- because it also works for an operator whose connection does not enforce foreign keys.
CREATE TRIGGER articles_user_delete BEFORE DELETE ON users BEGIN
  UPDATE articles SET author_id = NULL WHERE author_id = old.id;
  UPDATE article_comments SET author_id = NULL WHERE author_id = old.id;
  UPDATE articles SET like_count = like_count - 1
    WHERE id IN (SELECT article_id FROM article_likes WHERE user_id = old.id) AND like_count > 0;
  DELETE FROM article_likes WHERE user_id = old.id;
END;
