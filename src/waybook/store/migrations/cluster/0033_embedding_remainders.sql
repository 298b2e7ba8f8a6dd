-- Migration 0033 on a cluster, which refuses a new column with a constraint without a name.

alter table passage_embedding
  add column remainders bytea constraint passage_embedding_remainders_check
    check (octet_length(remainders) = 128);
