/* targets_text.c: tokenizers, templates, grammars, and what is read out of answers. */
#include "tests/fuzz/targets.h"

#include "core/base/json.h"
#include "core/text/jinja.h"
#include "core/text/reasoning.h"
#include "core/text/stop.h"
#include "core/text/tokenizer.h"
#include "core/text/toolcalls.h"
#include "tests/fuzz/grammar_input.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokenizers */

/* Texts come back as they were, whole and in pieces. */
static const char *use_tokenizer(const struct tokenizer *t)
{
    static const char text[] = "A  caf\xc3\xa9, 12\n<s>\xf0\x9f\x98\x80\t\xff z";
    struct tok_ids ids = {0};
    struct tok_stream *s = NULL;
    struct err e = {0};
    char *whole = NULL, pieces[4096];
    const char *piece, *why = NULL;
    size_t n = 0, given = 0, m;
    int32_t all = tok_n_ids(t);
    if (tok_encode(t, text, sizeof text - 1, 1, &ids, &e)) {
        tok_ids_free(&ids);
        return fuzz_wrong_error(&e);
    }
    for (size_t i = 0; i < ids.n; i++)
        if (ids.id[i] < 0 || ids.id[i] >= all) why = "an id that there is not";
    if (!why && (tok_decode(t, ids.id, ids.n, 0, &whole, &n, &e) || tok_stream_open(&s, t, 0, &e)))
        why = fuzz_wrong_error(&e);
    for (size_t i = 0; s && !why && i <= ids.n; i++) {
        if (i < ids.n ? tok_stream_push(s, ids.id[i], &piece, &m, &e)
                      : tok_stream_flush(s, &piece, &m, &e)) {
            why = fuzz_wrong_error(&e);
            break;
        }
        if (given + m <= sizeof pieces && m) memcpy(pieces + given, piece, m);
        given += m;
    }
    if (!why && s && (given != n || (n <= sizeof pieces && memcmp(pieces, whole, n))))
        why = "pieces are another text than the whole";
    tok_stream_close(s);
    free(whole);
    tok_ids_free(&ids);
    return why;
}

static const char *open_tokenizer(const struct tok_source *source)
{
    struct tokenizer *t;
    struct err e = {0};
    if (tok_open(&t, source, &e)) return fuzz_wrong_error(&e);
    const char *why = use_tokenizer(t);
    tok_close(t);
    return why;
}

const char *fuzz_run_tokenizer(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n ? memchr(data, 0, n) : NULL; /* behind it: tokenizer_config.json */
    size_t first = cut ? (size_t)(cut - data) : n;
    return open_tokenizer(&(struct tok_source){.json = (const char *)data,
                                               .json_bytes = first,
                                               .config = cut ? (const char *)cut + 1 : NULL,
                                               .config_bytes = cut ? n - first - 1 : 0});
}

void fuzz_seeds_tokenizer(fuzz_add *add)
{
    static const char bpe[] =
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":8,\"content\":\"<s>\",\"special\":true,"
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":true,\"normalized\":false},{\"id\":9,"
        "\"content\":\"z\",\"special\":false,\"normalized\":true}],\"normalizer\":{\"type\":"
        "\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{"
        "\"String\":\" \"},\"content\":\"\xe2\x96\x81\"},{\"type\":\"Prepend\",\"prepend\":"
        "\"\xe2\x96\x81\"}]},\"pre_tokenizer\":null,\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{"
        "\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{"
        "\"id\":\"<s>\",\"ids\":[8],\"tokens\":[\"<s>\"]}}},\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
        "\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":"
        "\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"a\":1,\"c\":2,"
        "\"f\":3,\"ca\":4,\"caf\":5,\"\xe2\x96\x81\":6,\"<0x0A>\":7},\"merges\":[\"c a\",[\"ca\","
        "\"f\"]]}}";
    static const char bytes[] =
        "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\","
        "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|\\\\d{1,3}| ?["
        "^\\\\s\\\\p{L}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{"
        "\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},\"decoder\":{"
        "\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{"
        "\"A\":0,\"\xc4\xa0\":1,\"c\":2,\"a\":3,\"ca\":4},\"merges\":[\"c a\"]}}";
    static const char config[] =
        "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"z\"},\"add_bos_token\":true,"
        "\"added_tokens_decoder\":{\"8\":{\"content\":\"<s>\",\"special\":true}},"
        "\"clean_up_tokenization_spaces\":true}";
    static char both[sizeof bpe + sizeof config];
    memcpy(both, bpe, sizeof bpe);
    memcpy(both + sizeof bpe, config, sizeof config - 1);
    add(both, sizeof both - 1);
    add(bpe, sizeof bpe - 1);
    add(bytes, sizeof bytes - 1);
}

const char *fuzz_run_sentencepiece(const uint8_t *data, size_t n)
{
    return open_tokenizer(&(struct tok_source){.spm = (const char *)data, .spm_bytes = n});
}

void fuzz_seeds_sentencepiece(fuzz_add *add)
{
    /* pieces (text, score, type), then trainer_spec and normalizer_spec */
    static const char *const pieces[] = {"<unk>",        "<s>", "</s>", "<0x0A>", "<0xC3>",
                                         "\xe2\x96\x81", "A",   "c",    "a",      "ca"};
    static const char types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1};
    char b[1024];
    for (int type = 1; type <= 2; type++) { /* unigram, BPE */
        size_t n = 0;
        for (size_t i = 0; i < sizeof types; i++) {
            size_t m = strlen(pieces[i]);
            float score = -(float)i;
            b[n++] = 0x0a, b[n++] = (char)(m + 9);
            b[n++] = 0x0a, b[n++] = (char)m;
            memcpy(b + n, pieces[i], m), n += m;
            b[n++] = 0x15;
            memcpy(b + n, &score, 4), n += 4;
            b[n++] = 0x18, b[n++] = types[i];
        }
        const char spec[] = {0x12, 6,    0x18, (char)type, (char)0x98, 2,    1,
                             0,    0x1a, 4,    0x18,       1,          0x20, 0};
        memcpy(b + n, spec, sizeof spec);
        add(b, n + sizeof spec);
    }
}

/* ---- templates */

static const json_t *variables(void)
{
    static json_t *v;
    if (!v)
        v = json_loads(
            "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\","
            "\"content\":\"Hi <b>\xc3\xa9</b>\"},{\"role\":\"assistant\",\"content\":null,"
            "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{"
            "\"x\":[1,2.5,true,null]}}}]},{\"role\":\"tool\",\"content\":\"4\"}],\"tools\":[{"
            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
            "\"object\"}}}],\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
            "\"add_generation_prompt\":true,\"enable_thinking\":false}",
            0, NULL);
    if (!v) abort();
    return v;
}

const char *fuzz_run_template(const uint8_t *data, size_t n)
{
    struct jinja *t;
    struct err e = {0};
    char *text, *again;
    size_t m, k;
    if (jinja_open(&t, (const char *)data, n, &e)) return fuzz_wrong_error(&e);
    const char *why = NULL;
    if (jinja_render(t, variables(), 1700000000, &text, &m, &e)) {
        why = fuzz_wrong_error(&e);
        if (err_is_memory(&e)) why = NULL; /* JINJA_MAX_MEMORY */
    } else {
        if (jinja_render(t, variables(), 1700000000, &again, &k, &e)) why = "renders only once";
        else {
            if (k != m || memcmp(text, again, m)) why = "renders differently the second time";
            free(again);
        }
        free(text);
    }
    jinja_close(t);
    return why;
}

void fuzz_seeds_template(fuzz_add *add)
{
    json_error_t e;
    json_t *cases = json_load_file("tests/data/jinja-cases.json", 0, &e), *one;
    json_t *list = json_is_array(cases) ? cases : json_object_get(cases, "cases");
    size_t i;
    json_array_foreach (list, i, one) {
        const char *s = json_string_value(json_object_get(one, "template"));
        if (s && i % 8 == 0) add(s, strlen(s));
    }
    json_decref(cases);
    fuzz_seed_file(add, "models/demo/chat_template.jinja", 20000);
}

/* ---- grammars */

const char *fuzz_run_grammar(const uint8_t *data, size_t n)
{
    struct grammar_cost cost;
    const char *why;
    grammar_input_try(data, n, &cost, &why);
    return why;
}

void fuzz_seeds_grammar(fuzz_add *add)
{
    static const char *const texts[] = {
        "0{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-3},\"b\":{"
        "\"enum\":[1,\"x\",null]}},\"required\":[\"a\"],\"additionalProperties\":{\"type\":"
        "\"null\"},"
        "\"maxProperties\":2,\"minProperties\":1}\377{\"a",
        "0{\"anyOf\":[{\"$ref\":\"#/$defs/"
        "x\"},{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":3,"
        "\"format\":\"date\"}],\"not\":{\"const\":7},\"$defs\":{\"x\":{\"items\":{\"$ref\":\"#\"},"
        "\"minItems\":1,\"uniqueItems\":true,\"contains\":{\"type\":\"number\"}}}}",
        "8{\"patternProperties\":{\"^a\":true},\"propertyNames\":{\"pattern\":\"^.{1,3}$\"},\"if\":"
        "{"
        "\"required\":[\"a\"]},\"then\":{\"required\":[\"b\"]},\"dependentRequired\":{\"c\":[\"d\"]"
        "}}",
        "1(a|b)*abb[^x-z\\d]{2,3}?$\377abab",
        "1(?:x{3,5}y?|\\u00e9)+",
        "2root ::= expr\nexpr ::= term ([-+] term)*\nterm ::= [0-9]+ | \"(\" expr \")\" | "
        "b{2,3}\nb ::= "
        "\"\\x41\" . # c\n\377(1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add(texts[i], strlen(texts[i]));
}

/* ---- what is read out of answers */

/* The first byte: the syntax and how the answer ended; then the answer, 255 for the mark of a
 * special token. */
const char *fuzz_run_calls(const uint8_t *data, size_t n)
{
    static json_t *tools, *special;
    struct toolcalls t;
    struct err e = {0};
    const char *why = NULL;
    if (n == 0) return NULL;
    if (!tools)
        tools = json_loads("[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
                           "\"x\":{\"type\":\"integer\"},\"s\":{\"type\":\"string\"},\"b\":{"
                           "\"type\":[\"boolean\",\"null\"]},\"a\":{\"type\":\"array\"},\"o\":{"
                           "\"$ref\":\"#/$defs/o\"}},\"$defs\":{\"o\":{\"type\":\"object\"}}}},{"
                           "\"name\":\"g.h\"}]",
                           0, NULL);
    if (!special)
        special = json_loads("[\"<tool_call>\",\"[TOOL_CALLS]\",\"<|python_tag|>\"]", 0, NULL);
    const struct call_syntax *syntax = call_syntax_row(data[0] & 63);
    if (!syntax) syntax = call_syntax_plain();
    const struct toolcalls_source s = {.syntax = syntax,
                                       .special = special,
                                       .tools = tools,
                                       .is_cut = data[0] >> 6 & 1,
                                       .is_exact = data[0] >> 7};
    if (toolcalls_read(&t, &s, (const char *)data + 1, n - 1, &e)) return fuzz_wrong_error(&e);
    for (int i = 0; i < t.n && !why; i++) {
        struct err bad;
        json_t *v = json_read_python(t.call[i].arguments, strlen(t.call[i].arguments),
                                     JSON_ALLOW_NUL, NULL, &bad);
        if (!t.call[i].name || !*t.call[i].name) why = "a call without a name";
        if (!v) why = "arguments that are no JSON";
        json_decref(v);
    }
    toolcalls_close(&t);
    return why;
}

void fuzz_seeds_calls(fuzz_add *add)
{
    const struct call_syntax *s;
    for (int row = 0; (s = call_syntax_row(row)); row++) {
        char b[600];
        const char *value = s->body == CALL_MEMBERS ? "12" : "{\"x\":12,\"s\":\"a<b\"}";
        int n = s->body == CALL_JSON
                    ? snprintf(b, sizeof b, "%c%s%s{\"%s\":\"f\",\"%s\":%s}%s%s", row,
                               s->begin ? s->begin : "", s->call ? s->call : "",
                               s->name_key ? s->name_key : "name",
                               s->arguments_key ? s->arguments_key : "arguments", value,
                               s->call_end ? s->call_end : "", s->end ? s->end : "")
                    : snprintf(b, sizeof b, "%c%s%sf%s%s%s%s%s%s%s%s", row,
                               s->begin ? s->begin : "", s->call ? s->call : "",
                               s->name_end ? s->name_end : "", s->key ? s->key : "",
                               s->key ? "x" : "", s->key_end ? s->key_end : "", value,
                               s->value_end ? s->value_end : "", s->call_end ? s->call_end : "",
                               s->end ? s->end : "");
        if (n > 0 && (size_t)n < sizeof b) add(b, (size_t)n);
    }
}

/* Parts of a text given whole or in pieces; nothing is lost. */
static size_t split(const uint8_t *data, size_t n, size_t piece, char *out, uint8_t *part_of)
{
    struct reasoning r;
    struct err e;
    enum reasoning_part part;
    const char *p;
    size_t given = 0, m;
    const char *prompt = n && data[0] & 1 ? "x<think>" : "";
    reasoning_open(&r, reasoning_tags_of(NULL, 0), prompt, strlen(prompt));
    for (size_t at = 0; at <= n; at += piece) {
        m = n - at < piece ? n - at : piece;
        if (reasoning_push(&r, m ? (const char *)data + at : NULL, m, &e)) abort();
        if (at + piece > n) reasoning_end(&r);
        while (reasoning_next(&r, &part, &p, &m)) {
            for (size_t i = 0; i < m && given < n; i++) out[given] = p[i], part_of[given++] = part;
        }
    }
    reasoning_close(&r);
    return given;
}

const char *fuzz_run_reasoning(const uint8_t *data, size_t n)
{
    const char *why = NULL;
    char *text = malloc(n + 1), *cut = malloc(n + 1);
    uint8_t *part = malloc(n + 1), *cut_part = malloc(n + 1);
    if (!text || !cut || !part || !cut_part) abort();
    size_t piece = n ? 1 + data[0] / 2 % 7 : 1;
    if (split(data, n, n + 1, text, part) != n || split(data, n, piece, cut, cut_part) != n ||
        (n && (memcmp(text, data, n) || memcmp(cut, data, n))))
        why = "bytes are lost";
    else if (n && memcmp(part, cut_part, n)) why = "pieces are told apart otherwise than the whole";
    free(text), free(cut), free(part), free(cut_part);
    return why;
}

void fuzz_seeds_reasoning(fuzz_add *add)
{
    static const char *const texts[] = {"<think>I see.</think>\n\nYes.", " \n<think>\na</thi",
                                        "No.", "I see.</think>Yes.</think>"};
    for (size_t i = 0; i < 4; i++) add(texts[i], strlen(texts[i]));
}

/* Stop strings up to the first zero byte, separated by byte 1; then pieces, separated likewise: the
 * text ends where a plain search says. */
const char *fuzz_run_stop(const uint8_t *data, size_t n)
{
    const char *string[8];
    char *own = malloc(n + 1), *at;
    int n_strings = 0, is_end = 0;
    if (!own) abort();
    if (n) memcpy(own, data, n);
    own[n] = 0;
    size_t first = strlen(own);
    for (at = strtok(own, "\1"); at && n_strings < 8; at = strtok(NULL, "\1"))
        string[n_strings++] = at;
    char *text = malloc(n + 1), *got = malloc(n + 1);
    size_t n_text = 0, n_got = 0;
    struct stop s;
    struct err e = {0};
    if (!text || !got || stop_open(&s, string, n_strings, &e)) abort();
    const char *why = NULL, *piece;
    for (size_t i = first + 1, m; i < n && !is_end; i += m + 1) {
        const uint8_t *cut = memchr(data + i, 1, n - i);
        m = cut ? (size_t)(cut - data) - i : n - i;
        memcpy(text + n_text, data + i, m), n_text += m;
        size_t k;
        int rc = stop_push(&s, (const char *)data + i, m, &piece, &k, &e);
        if (rc < 0) abort();
        if (k) memcpy(got + n_got, piece, k);
        n_got += k;
        is_end = rc;
    }
    if (!is_end) {
        size_t k;
        stop_flush(&s, &piece, &k);
        if (k) memcpy(got + n_got, piece, k);
        n_got += k;
    }
    /* the first place at which a string begins whose end comes first */
    size_t want = n_text, end = n_text + 1;
    for (int k = 0; k < n_strings; k++) {
        const char *p = n_text ? memmem(text, n_text, string[k], strlen(string[k])) : NULL;
        if (!p) continue;
        size_t to = (size_t)(p - text) + strlen(string[k]);
        if (to < end || (to == end && (size_t)(p - text) < want))
            end = to, want = (size_t)(p - text);
    }
    if (is_end != (end <= n_text)) why = "a stop string is missed, or seen where there is none";
    else if (n_got != want || memcmp(got, text, want)) why = "another text before the stop string";
    stop_close(&s);
    free(own), free(text), free(got);
    return why;
}

void fuzz_seeds_stop(fuzz_add *add)
{
    static const char a[] = "END\1\n\n\0ab EN\1D cd", b[] = "abab\1ba\0aba\1bab";
    add(a, sizeof a - 1);
    add(b, sizeof b - 1);
}
