-- Oldest compatible migration: 0029
--
-- Remainders of the codes of embeddings, with which the nearest passages are ranked. Programs that
-- do not know the column write none; the remainders of their embeddings count as zero, as do those of
-- embeddings that were stored before.

alter table passage_embedding
  add column remainders bytea check (octet_length(remainders) = 128);
