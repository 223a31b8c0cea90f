"""Gates of routes: figures of operations, and answers under row-level security."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models

from apps.tenants.rls import row_level_security, tenant_foreign_key


class Migration(migrations.Migration):

    dependencies = [
        ('evals', '0003_question_fingerprints'),
        ('tenants', '0003_limits'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AnswerRun',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('set_id', models.UUIDField()),
                ('collection_id', models.UUIDField()),
                ('alias', models.CharField(max_length=100)),
                ('candidate', models.JSONField()),
                ('in_force', models.JSONField()),
                ('fingerprint', models.CharField(max_length=64)),
                ('chosen', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('sample', models.PositiveIntegerField()),
                ('seed', models.PositiveIntegerField(default=0)),
                ('budgets', models.JSONField()),
                ('probe', models.JSONField(default=list)),
                ('needles', models.JSONField(default=list)),
                ('conditions', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=9)),
                ('verdict', models.CharField(blank=True, choices=[('', 'None yet'), ('passed', 'Passed'), ('failed', 'Failed'), ('undecided', 'Too few questions to tell'), ('outdated', 'What it was compared with is no longer in force')], max_length=9)),
                ('fence', models.PositiveIntegerField(default=0)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('attempt', models.PositiveSmallIntegerField(default=0)),
                ('error_code', models.CharField(blank=True, max_length=60)),
                ('done', models.PositiveIntegerField(default=0)),
                ('total', models.PositiveIntegerField(default=0)),
                ('figures', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='tenants.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='AnswerResult',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('slices', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), default=list, size=None)),
                ('scores', models.JSONField(default=dict)),
                ('answers', models.JSONField(default=dict)),
                ('question', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='evals.labelledquestion')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='tenants.tenant')),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='results', to='evals.answerrun')),
            ],
        ),
        migrations.AddIndex(
            model_name='answerrun',
            index=models.Index(fields=['-created_at'], name='answer_run_newest'),
        ),
        migrations.AddIndex(
            model_name='answerrun',
            index=models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['created_at'], name='answer_run_next'),
        ),
        migrations.AddConstraint(
            model_name='answerrun',
            constraint=models.UniqueConstraint(fields=('tenant', 'id'), name='answer_run_tenant_id'),
        ),
        migrations.AddConstraint(
            model_name='answerrun',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'done', 'failed', 'cancelled'])), name='answer_run_state'),
        ),
        migrations.AddIndex(
            model_name='answerresult',
            index=models.Index(fields=['tenant', 'question'], name='answer_result_question'),
        ),
        migrations.AddConstraint(
            model_name='answerresult',
            constraint=models.UniqueConstraint(fields=('tenant', 'run', 'question'), name='answer_result_once'),
        ),
        row_level_security("evals_answerresult"),
        tenant_foreign_key("evals_answerresult", "run_id", "evals_answerrun"),
        tenant_foreign_key("evals_answerresult", "question_id", "evals_labelledquestion"),
    ]
