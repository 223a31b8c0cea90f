"""Counting budgets in one round trip: the counters of a caller are raised in one fixed order."""

from typing import ClassVar

from django.db import migrations

# Raise the counters of a caller's subjects in the windows given. `bounds`, one a counter in this
# order, are the most that used and reserved may come to; null: any. The answer is the first
# counter that came above its bound (from 1), 0 where none did; it has been raised all the same.
# The tenant's row is the one that everybody waits for, so it comes last of its measure.
_COUNT = """
CREATE FUNCTION gateway_count(
    tenant uuid, person bigint, program uuid, month timestamptz, day timestamptz,
    used_micros bigint, reserved_micros bigint, used_tokens bigint, reserved_tokens bigint,
    bounds bigint[]
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    measures text[] := ARRAY['micros', 'micros', 'micros', 'tokens', 'tokens', 'tokens'];
    subjects text[] := ARRAY['key', 'member', 'tenant', 'key', 'member', 'tenant'];
    names text[] := ARRAY[program::text, person::text, '', program::text, person::text, ''];
    starts timestamptz;
    more_used bigint;
    more_reserved bigint;
    total bigint;
BEGIN
    FOR i IN 1..6 LOOP
        CONTINUE WHEN names[i] IS NULL;
        IF measures[i] = 'micros' THEN
            starts := month; more_used := used_micros; more_reserved := reserved_micros;
        ELSE
            starts := day; more_used := used_tokens; more_reserved := reserved_tokens;
        END IF;
        UPDATE gateway_budgetcounter c
        SET used = c.used + more_used, reserved = c.reserved + more_reserved
        WHERE c.tenant_id = tenant AND c.subject = subjects[i] AND c.subject_id = names[i]
            AND c.measure = measures[i] AND c.window_start = starts
        RETURNING c.used + c.reserved INTO total;
        IF NOT FOUND THEN
            INSERT INTO gateway_budgetcounter AS c
                (tenant_id, subject, subject_id, measure, window_start, used, reserved)
            VALUES (tenant, subjects[i], names[i], measures[i], starts,
                    more_used, greatest(0, more_reserved))
            ON CONFLICT (tenant_id, subject, subject_id, measure, window_start) DO UPDATE
            SET used = c.used + more_used, reserved = c.reserved + more_reserved
            RETURNING c.used + c.reserved INTO total;
        END IF;
        IF total > bounds[i] THEN
            RETURN i;
        END IF;
    END LOOP;
    RETURN 0;
END $$;
"""
# A refusal takes back all that was raised before it. What the database loses in a crash of its
# own, with synchronous_commit off, are reservations of its last moments: their calls are settled
# all the same, and what was used is committed synchronously.
_RESERVE = """
CREATE FUNCTION gateway_reserve(
    reservation uuid, tenant uuid, person bigint, program uuid,
    month timestamptz, day timestamptz, worst_micros bigint, worst_tokens bigint,
    bounds bigint[], lease interval, lock_timeout_ms text, request jsonb
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    refused integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true),
            set_config('lock_timeout', lock_timeout_ms, true);
    refused := gateway_count(tenant, person, program, month, day,
                             0, worst_micros, 0, worst_tokens, bounds);
    IF refused > 0 THEN
        RAISE SQLSTATE 'GW001';
    END IF;
    INSERT INTO gateway_reservation (id, tenant_id, user_id, key_id, micros, tokens,
                                     month_start, day_start, started_at, expires_at, noted)
    VALUES (reservation, tenant, person, program, worst_micros, worst_tokens,
            month, day, now(), now() + lease, request);
    RETURN 0;
EXCEPTION WHEN SQLSTATE 'GW001' THEN
    RETURN refused;
END $$;
"""
# What a call used, against what is still reserved for it; nothing is, where the reservation has
# been swept. The call is no longer in flight. The answer tells, after a lost connection, whether
# this was committed.
_SETTLE = """
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
"""
_RELEASE = """
CREATE FUNCTION gateway_release(reservation uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held gateway_reservation;
BEGIN
    DELETE FROM gateway_reservation r WHERE r.id = reservation RETURNING r.* INTO held;
    IF FOUND THEN
        PERFORM gateway_count(held.tenant_id, held.user_id, held.key_id,
                              held.month_start, held.day_start,
                              0, -held.micros, 0, -held.tokens, NULL);
    END IF;
END $$;
"""
_DROP = """
DROP FUNCTION gateway_release(uuid);
DROP FUNCTION gateway_settle(uuid, uuid, bigint, uuid, timestamptz, timestamptz, bigint, bigint);
DROP FUNCTION gateway_reserve(uuid, uuid, bigint, uuid, timestamptz, timestamptz, bigint, bigint,
                              bigint[], interval, text, jsonb);
DROP FUNCTION gateway_count(uuid, bigint, uuid, timestamptz, timestamptz, bigint, bigint, bigint,
                            bigint, bigint[]);
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("gateway", "0003_rollups")]

    operations: ClassVar = [
        migrations.RunSQL(sql=_COUNT + _RESERVE + _SETTLE + _RELEASE, reverse_sql=_DROP),
    ]
