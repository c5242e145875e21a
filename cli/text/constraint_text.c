#include "cli/text/constraint_text.h"

#include "cli/run.h"
#include "core/base/file.h"
#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 16 << 20 };


static int read_file(struct constraint_text *t, const char *path, struct err *e)
{
    uint64_t bytes;
    int fd, rc = 0;
    size_t n = 0;
    if (file_open(&fd, path, &bytes, e)) return -1;
    if (bytes > MAX_TEXT) rc = err_set(e, "%s: more than 16 MiB", path);
    else if (!(t->owned = malloc((size_t)bytes + 1))) rc = err_memory(e);
    while (!rc && n < bytes) {
        ssize_t got = read(fd, t->owned + n, (size_t)bytes - n);
        if (got < 0) rc = err_sys(e, "%s", path);
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(fd);
    if (!rc) n = run_drop_mark(t->owned, n);
    if (!rc) t->owned[n] = 0;
    t->spec.bytes = n;
    return rc;
}

/* The choices as a JSON array. */
static int join_choices(struct constraint_text *t, const struct args_strings *s, struct err *e)
{
    json_forget();
    json_t *all = json_array();
    for (int i = 0; i < s->n; i++) json_array_append_new(all, json_text(s->v[i]));
    t->owned = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return t->owned && !json_check(e) ? 0 : err_memory(e);
}

int constraint_read(struct constraint_text *t, const struct options *o, struct err *e)
{
    const struct {
        const char *text, *file;
        const void *field, *file_field;
        enum grammar_kind kind;
    } ways[] = {
        {o->json_schema, o->json_schema_file, &o->json_schema, &o->json_schema_file,
         GRAMMAR_SCHEMA},
        {o->regex, NULL, &o->regex, NULL, GRAMMAR_REGEX},
        {o->grammar, o->grammar_file, &o->grammar, &o->grammar_file, GRAMMAR_GBNF},
    };
    t->spec = (struct grammar_spec){
        .order = o->any_order      ? JSON_ORDER_ANY
                 : o->schema_order ? JSON_ORDER_STRICT
                                   : JSON_ORDER_SCHEMA,
        .space = o->compact_json                          ? JSON_SPACE_NONE
                 : o->json_space && *o->json_space == 'n' ? JSON_SPACE_NONE
                 : o->json_space && *o->json_space == 'a' ? JSON_SPACE_ANY
                                                          : JSON_SPACE_ONE,
        .may_begin_with_space = o->leading_space && !o->chat && !o->conversation};
    if (o->json) t->name = options_given(o, &o->json);
    t->spec.kind = GRAMMAR_JSON;
    for (int i = 0; i < 3; i++) {
        if (!ways[i].text && !ways[i].file) continue;
        t->spec.kind = ways[i].kind;
        t->spec.text = ways[i].text;
        t->name = options_given(o, ways[i].text ? ways[i].field : ways[i].file_field);
        if (ways[i].file && read_file(t, ways[i].file, e)) return err_prefix(e, "%s", t->name);
    }
    if (o->choice.n) {
        t->name = options_given(o, &o->choice);
        t->spec.kind = GRAMMAR_CHOICE;
        if (join_choices(t, &o->choice, e)) return -1;
    }
    if (t->owned) t->spec.text = t->owned;
    if (t->spec.text && !t->spec.bytes) t->spec.bytes = strlen(t->spec.text);
    if (t->spec.text && !t->spec.bytes && t->spec.kind != GRAMMAR_REGEX)
        return err_set(e, "%s: is empty", t->name);
    return 0;
}

void constraint_text_close(struct constraint_text *t)
{
    free(t->owned);
    *t = (struct constraint_text){0};
}

int constraint_one_open(struct constraint_one *one, const struct options *o,
                        const struct vocabulary_source *source, struct grammar **g, struct err *e)
{
    *g = NULL;
    if (constraint_read(&one->text, o, e)) return -1;
    if (!one->text.name) return 0;
    if (!source->tokenizer)
        return err_set(e, "%s needs a tokenizer, the model has none", one->text.name);
    if (constraints_open(&one->all, source, e) ||
        constraint_ask(one->all, &one->text.spec, &one->constraint, e))
        return -1;
    return constraint_get(one->all, one->constraint, 1, g, e) < 0
               ? err_prefix(e, "%s", one->text.name)
               : 0;
}

void constraint_one_close(struct constraint_one *one)
{
    constraints_close(one->all);
    constraint_text_close(&one->text);
    *one = (struct constraint_one){0};
}
