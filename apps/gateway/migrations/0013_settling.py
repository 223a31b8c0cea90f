"""Settling in one statement, which may be sent again: the ledger has each settlement once."""

from typing import ClassVar

from django.db import migrations, models

# One row, from a JSON object of its columns; the answer is what the call cost. A settlement that
# is in the ledger already is not written again; one that another transaction is just writing is
# waited for. `is_new`: whether this wrote it.
_ENTER = """
CREATE FUNCTION gateway_enter(entry jsonb, OUT cost bigint, OUT is_new boolean)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gateway_ledgerentry AS l
        (tenant_id, user_id, key_id, conversation_id, request_id, settlement_id, source, hop,
         model, upstream, upstream_model, collection_ids, cache, cache_reason, prompt_tokens,
         cached_tokens, output_tokens, tokens_estimated, cost_micros, price_id, saved_micros,
         saved_ms, queue_ms, first_token_ms, total_ms, attempts, outcome, error_code)
    SELECT
         tenant_id, user_id, key_id, conversation_id, request_id, settlement_id, source, hop,
         model, upstream, upstream_model, collection_ids, cache, cache_reason, prompt_tokens,
         cached_tokens, output_tokens, tokens_estimated, cost_micros, price_id, saved_micros,
         saved_ms, queue_ms, first_token_ms, total_ms, attempts, outcome, error_code
    FROM jsonb_populate_record(NULL::gateway_ledgerentry, entry)
    ON CONFLICT (settlement_id) DO NOTHING
    RETURNING l.cost_micros INTO cost;
    is_new := FOUND;
    IF NOT is_new THEN
        SELECT l.cost_micros INTO STRICT cost FROM gateway_ledgerentry l
        WHERE l.settlement_id = (entry->>'settlement_id')::uuid;
    END IF;
END $$;
"""
# What a call used, against what is still reserved for it: the ledger's row and the counters, or
# neither. The call is no longer in flight. Where the reservation has been swept the answer is
# null and nothing is done, unless `although_swept`: then nothing is freed. The reservation is
# locked first, as the sweeper does, so that of the two one sees what the other did.
_SETTLE = """
CREATE FUNCTION gateway_book(
    reservation uuid, month timestamptz, day timestamptz, tokens_used bigint, entry jsonb,
    although_swept boolean, lock_timeout_ms text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    freed_micros bigint;
    freed_tokens bigint;
    cost bigint;
    is_new boolean;
BEGIN
    PERFORM set_config('lock_timeout', lock_timeout_ms, true);
    SELECT least(r.micros, (entry->>'cost_micros')::bigint), least(r.tokens, tokens_used)
    INTO freed_micros, freed_tokens FROM gateway_reservation r WHERE r.id = reservation FOR UPDATE;
    IF NOT FOUND AND NOT although_swept THEN
        RETURN NULL;
    END IF;
    SELECT * INTO cost, is_new FROM gateway_enter(entry);
    IF is_new THEN
        UPDATE gateway_reservation r
        SET micros = r.micros - freed_micros, tokens = r.tokens - freed_tokens,
            noted = r.noted - 'call'
        WHERE r.id = reservation;
        PERFORM gateway_count((entry->>'tenant_id')::uuid, (entry->>'user_id')::bigint,
                              (entry->>'key_id')::uuid, month, day,
                              cost, -coalesce(freed_micros, 0),
                              tokens_used, -coalesce(freed_tokens, 0), NULL);
    END IF;
    RETURN cost;
END $$;
DROP FUNCTION gateway_settle(uuid, uuid, bigint, uuid, timestamptz, timestamptz, bigint, bigint);
"""
_SETTLE_BEFORE = """
CREATE FUNCTION gateway_settle(
    reservation uuid, tenant uuid, person bigint, program uuid,
    month timestamptz, day timestamptz, micros_used bigint, tokens_used bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    freed_micros bigint := 0;
    freed_tokens bigint := 0;
BEGIN
    SELECT least(r.micros, micros_used), least(r.tokens, tokens_used)
    INTO freed_micros, freed_tokens FROM gateway_reservation r WHERE r.id = reservation FOR UPDATE;
    UPDATE gateway_reservation r
    SET micros = r.micros - freed_micros, tokens = r.tokens - freed_tokens,
        noted = r.noted - 'call'
    WHERE r.id = reservation;
    PERFORM gateway_count(tenant, person, program, month, day,
                          micros_used, -coalesce(freed_micros, 0),
                          tokens_used, -coalesce(freed_tokens, 0), NULL);
    RETURN pg_current_xact_id()::text;
END $$;
DROP FUNCTION gateway_book(uuid, timestamptz, timestamptz, bigint, jsonb, boolean, text);
DROP FUNCTION gateway_enter(jsonb);
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("gateway", "0012_hits_are_in_the_ledger")]

    operations: ClassVar = [
        migrations.AddField(
            "ledgerentry", "settlement_id", models.UUIDField(null=True, unique=True)
        ),
        migrations.RunSQL(sql=_ENTER + _SETTLE, reverse_sql=_SETTLE_BEFORE),
    ]
