"""What retrieval adds to the key of a cached answer."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from apps.documents.models import Collection
from apps.retrieval.fingerprint import answer_fingerprint
from apps.retrieval.models import EmbeddingIndex, SearchProfile
from apps.retrieval.profiles import apply_profile, restore_settings
from apps.tenants.models import Tenant
from tests.retrieval.corpus import make_document, write_rows

pytestmark = pytest.mark.django_db


def test_it_is_the_same_while_nothing_changes(collection: Collection) -> None:
    write_rows(make_document(collection, ["The harbour opens at six."]))
    assert answer_fingerprint(collection.tenant_id) == answer_fingerprint(collection.tenant_id)


def test_an_index_put_in_force_changes_it(collection: Collection) -> None:
    tenant_id = collection.tenant_id
    before = answer_fingerprint(tenant_id)
    index = write_rows(make_document(collection, ["The harbour opens at six."]))
    with_index = answer_fingerprint(tenant_id)
    EmbeddingIndex.objects.filter(id=index.id).update(active=False)
    EmbeddingIndex.objects.create(
        tenant_id=tenant_id,
        model_id="other",
        dimensions=index.dimensions,
        chunker_version=1,
        active=True,
    )
    assert len({before, with_index, answer_fingerprint(tenant_id)}) == 3


@pytest.mark.parametrize("changes", [{"not_found_below": 0.5}, {"rerank_candidates": 7}], ids=str)
def test_a_search_profile_changes_it_until_it_is_taken_back(
    tenant: Tenant, changes: dict[str, float]
) -> None:
    before = answer_fingerprint(tenant.id)
    origin = SearchProfile.Origin.MANUAL
    apply_profile(tenant=tenant, user=None, origin=origin, changes=changes)
    assert answer_fingerprint(tenant.id) != before
    restore_settings(tenant=tenant, user=None)
    assert answer_fingerprint(tenant.id) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOT_FOUND_BELOW", 0.5),
        ("RERANK_CANDIDATES", 7),
        ("RERANKER", "off"),
        ("EMBEDDING_LANGUAGES", ["en", "de"]),
    ],
)
def test_a_setting_changes_it(tenant: Tenant, settings: Settings, name: str, value: object) -> None:
    before = answer_fingerprint(tenant.id)
    setattr(settings, name, value)
    assert answer_fingerprint(tenant.id) != before


def test_another_tenants_profile_does_not(tenant: Tenant) -> None:
    before = answer_fingerprint(tenant.id)
    rival = Tenant.objects.create(slug="rival", name="Rival")
    origin = SearchProfile.Origin.MANUAL
    apply_profile(tenant=rival, user=None, origin=origin, changes={"not_found_below": 0.5})
    assert answer_fingerprint(tenant.id) == before
