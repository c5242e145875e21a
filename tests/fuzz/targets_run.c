/* targets_run.c: what a run is given: lines of a batch up to their answers, options, saved
 * conversations, tables. */
#include "tests/fuzz/targets.h"

#include "cli/modes/batch/answer.h"
#include "cli/modes/batch/table.h"
#include "cli/modes/conversation/conversation.h"
#include "cli/outputs.h"
#include "cli/usage.h"
#include "core/text/chat.h"
#include "engine/pooling.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what a run has: the tokenizer and template of the demo model */

static struct tokenizer *tokenizer;
static struct chat *chat;
static struct constraints *constraints;
static struct token_text token_texts;
static struct breaker_texts breakers;
static struct job_calls_env calls;
static const struct pooling pooling = {.dim = 8, .yes = -1, .no = -1, .may_cut = 1};

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(4 << 20);
    if (!f || !p) {
        fprintf(stderr, "inputs: %s: cannot be read\n", path);
        exit(2);
    }
    *n = fread(p, 1, 4 << 20, f);
    fclose(f);
    return p;
}

/* With calls as Hermes writes them, and reasoning. */
static const char template[] =
    "{% if tools %}{{ tools | tojson }}<tool_call>\\n{..}\\n</tool_call>{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments.x }}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% if enable_thinking %}<think>{% endif %}{% endif %}";

static void open_run(void)
{
    struct err e;
    struct tok_source s = {0};
    struct chat_source c = {0};
    if (tokenizer) return;
    s.json = read_all("models/demo/tokenizer.json", &s.json_bytes);
    s.config = read_all("models/demo/tokenizer_config.json", &s.config_bytes);
    c.jinja = (struct chat_file){template, sizeof template - 1};
    c.config.text = s.config;
    c.config.bytes = s.config_bytes;
    if (tok_open(&tokenizer, &s, &e) || chat_open(&chat, &c, 1700000000, &e)) abort();
    static int32_t eos;
    eos = tok_eos(tokenizer);
    const struct vocabulary_source v = {tokenizer, &eos, eos >= 0, tok_n_ids(tokenizer)};
    if (constraints_open(&constraints, &v, &e) || token_text_open(&token_texts, tokenizer, &e))
        abort();
    calls.splits = 1;
    free((char *)s.json), free((char *)s.config);
}

/* ---- a line of a batch; behind a zero byte each byte chooses a token of the answers */

static void on_done(void *arg, struct job *j) { (void)arg, (void)j; }
static double no_clock(void) { return 1; }

/* As a scheduler would: every choice of every prompt in turn. */
static const char *hand_out(struct job *j, const uint8_t *pick, size_t n)
{
    struct err e = {0};
    size_t at = 0;
    for (int p = 0; p < j->n_prompts; p++) {
        const struct request *r = &j->prompt[p].request;
        struct token_top top[REQUEST_MAX_TOP] = {{0}};
        for (int c = 0; c < r->n_choices && j->prompt[p].choice; c++) {
            int end = 0, k = 0;
            for (; !end && k < r->max_tokens && k < 6; k++, at++) {
                struct token_info t = {.id = n ? pick[at % n] : (int32_t)(at % 250),
                                       .logprob = -0.5 * (double)(1 + k),
                                       .n_top = r->n_top > 0 ? r->n_top : 0,
                                       .top = top};
                for (int i = 0; i < t.n_top; i++)
                    top[i] = (struct token_top){(t.id + i) % tok_n_ids(tokenizer), t.logprob - i};
                end = r->sink->token(r->arg, c, &t, &e);
                if (end < 0) return fuzz_wrong_error(&e);
            }
            if (r->sink->finished(r->arg, c, end ? FINISH_STOP : FINISH_LENGTH, &e)) abort();
        }
        const char *why = j->prompt[p].choice ? NULL : "it is not computed here";
        if (r->sink->done(r->arg, why, &e)) return fuzz_wrong_error(&e);
    }
    return NULL;
}

static const char *answer(struct job *j, int rc, const struct refusal *why)
{
    const struct answer_env env = {
        .format = ANSWER_JSONL, .model = "m", .tokens = &token_texts, .splits = 1};
    struct out o = {0};
    struct err e = {0};
    const char *wrong = NULL;
    if (rc == 1) wrong = fuzz_wrong_error(&why->why);
    if (!wrong && (rc == 1 ? answer_refuse(&o, &env, &j->record, 400, why, &e)
                           : answer_write(&o, &env, j, &e)))
        wrong = fuzz_wrong_error(&e);
    if (!wrong && !fuzz_is_json(o.p, o.n)) wrong = "an answer that is no line of JSON";
    out_free(&o);
    return wrong;
}

const char *fuzz_run_line(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n ? memchr(data, 0, n) : NULL;
    size_t bytes = cut ? (size_t)(cut - data) : n;
    struct job *j;
    struct refusal why = {0};
    struct err e = {0};
    open_run();
    if (bytes == 0 || memchr(data, '\n', bytes)) return NULL;
    const struct job_env env = {.tokenizer = tokenizer,
                                .chat = chat,
                                .vocab = tok_n_ids(tokenizer),
                                .n_ctx = 2048,
                                .texts = &breakers,
                                .constraints = constraints,
                                .calls = &calls,
                                .pooling = &pooling,
                                .done = on_done,
                                .clock = no_clock};
    const struct record_defaults d = {.sampling = {.temperature = 1, .top_p = 1},
                                      .max_tokens = -1,
                                      .vocab = tok_n_ids(tokenizer),
                                      .trusts_templates = 1};
    const struct input_line line = {.text = (const char *)data, .n = bytes, .number = 1};
    int rc = job_open(&j, &env, &line, 0, &d, &why, &e);
    if (rc < 0) return fuzz_wrong_error(&e);
    if (!rc) rc = job_take_grammar(j, 1, &why, &e);
    const char *wrong = rc < 0 ? fuzz_wrong_error(&e) : NULL;
    if (!rc && record_is_chat(&j->record) + (j->record.kind == RECORD_COMPLETION)) {
        wrong = hand_out(j, cut ? cut + 1 : NULL, cut ? n - bytes - 1 : 0);
        if (!wrong) wrong = answer(j, 0, &why);
    } else if (rc == 1) {
        wrong = answer(j, 1, &why);
    }
    job_close(j);
    return wrong;
}

void fuzz_seeds_line(fuzz_add *add)
{
    static const char *const lines[] = {
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"
        "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"Hi\"}]}],\"max_tokens\":4,\"n\":2,\"logprobs\":true,\"top_logprobs\":3,\"stop\":[\"a\"],"
        "\"seed\":1,\"logit_bias\":{\"5\":-1.5},\"tools\":[{\"type\":\"function\",\"function\":{"
        "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":"
        "\"integer\"}}}}}],\"tool_choice\":\"auto\",\"chat_template_kwargs\":{\"a\":1}}}",
        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[\"a\",\"b\"],\"echo\":true,"
        "\"logprobs\":2,\"max_tokens\":3,\"temperature\":0.5,\"top_k\":3,\"min_p\":0.1,"
        "\"repetition_penalty\":1.1,\"bad_words\":[\"x\"],\"allowed_token_ids\":[1,2,3],"
        "\"min_tokens\":1,\"suffix\":null,\"truncate_prompt_tokens\":2}}",
        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[[1,2],[3]],\"max_tokens\":2,"
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":"
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}}}}}",
        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"a\",\"guided_regex\":\"[a-z]{2}\","
        "\"guided_choice\":null,\"dry_multiplier\":0.8,\"dry_sequence_breakers\":[\"\\n\"]}}",
        "{\"url\":\"/v1/responses\",\"body\":{\"input\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
        "\"instructions\":\"x\",\"max_output_tokens\":2,\"text\":{\"format\":{\"type\":\"text\"}}}"
        "}",
        "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"a\",[1,2]],\"dimensions\":4}}",
        "{\"url\":\"/v1/"
        "rerank\",\"body\":{\"query\":\"a\",\"documents\":[\"b\",\"c\"],\"top_n\":1}}",
        "{\"url\":\"/v1/score\",\"body\":{\"text_1\":\"a\",\"text_2\":[\"b\"]}}",
        "{\"prompt\":\"plain\",\"max_tokens\":2}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) add(lines[i], strlen(lines[i]));
}

/* ---- options, a word a line */

const char *fuzz_run_options(const uint8_t *data, size_t n)
{
    enum { WORDS = 40 };
    struct options o;
    struct err e = {0};
    char *argv[WORDS + 2] = {"opt4gptq-run"};
    int argc = 1;
    char *own = malloc(n + 1);
    if (!own) abort();
    if (n) memcpy(own, data, n);
    own[n] = 0;
    if (strlen(own) != n) {
        free(own);
        return NULL;
    }
    for (char *p = own, *end; p && argc <= WORDS; p = end) {
        end = strchr(p, '\n');
        if (end) *end++ = 0;
        argv[argc++] = p;
    }
    const char *why = NULL;
    if (options_parse(&o, argc, argv, &e)) why = fuzz_wrong_error(&e);
    else if (!args_asks(&o.common) &&
             (usage_check(&o, &e) || outputs_check(&o, &e) || options_settle(&o, &e)))
        why = fuzz_wrong_error(&e);
    free(own);
    return why;
}

void fuzz_seeds_options(fuzz_add *add)
{
    static const char *const lines[] = {
        "-m\na.st\n-p\ntext\n-n\n8\n--temp\n0.7\n--top-k\n40\n--top-p=0.9\n--seed\n3\n-t\n2",
        "-m\na.st\n-i\nin.jsonl\n-o\nout.jsonl\n-np\n8\n--kv\nint8\n--act\ni16\n--shard\n1/2\n"
        "--order\ndone\n--report\nr.json\n-b\n64",
        "-m\na.st\n-cnv\n-sys\nbe brief\n--multiline-input",
        "-m\na.st\n--eval\narc\n--limit\n3\n--num-fewshot\n2",
        "-m\na.st\n-p\nx\n--json-schema\n{}\n--compact-json\n--stop\nEND",
        "-m\na.st\n-p\nx\n--backend\nhip\n--devices\n0,1\n--parallel-mode\ntensor\n-ngl\n3",
        "--print-completion\nbash",
        "--tokenize\n-m\na.st\n-p\nx\n--logit-bias\n5+1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) add(lines[i], strlen(lines[i]));
}

/* ---- /load of a file; then the messages are a prompt */

static int quiet_begin(void)
{
    int before = dup(2), to = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(to, 2);
    close(to);
    return before;
}

const char *fuzz_run_conversation(const uint8_t *data, size_t n)
{
    static const struct options o;
    struct conversation c = {.o = &o};
    struct err e = {0};
    enum command_then then = COMMAND_DONE;
    char line[100];
    open_run();
    c.chat = chat;
    c.messages = json_array();
    snprintf(line, sizeof line, "/load %s", fuzz_file(0, data, n));
    int before = quiet_begin();
    int rc = conversation_command(&c, line, &then, &e);
    dup2(before, 2);
    close(before);
    const char *why = rc ? fuzz_wrong_error(&e) : NULL;
    if (rc && json_array_size(c.messages)) why = "failed, and changed the messages";
    if (!rc) {
        json_t *m;
        char *text;
        size_t bytes;
        if (chat_messages(chat, c.messages, &m, &e)) why = "loaded messages that are none";
        else {
            const struct chat_input in = {.messages = m, .add_generation_prompt = 1};
            if (chat_render(chat, &in, &text, &bytes, &e)) why = fuzz_wrong_error(&e);
            else free(text);
            json_decref(m);
        }
    }
    json_decref(c.messages);
    out_free(&c.read);
    return why;
}

void fuzz_seeds_conversation(fuzz_add *add)
{
    static const char *const files[] = {
        "[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":"
        "\"assistant\",\"content\":\"Yes.\",\"reasoning_content\":\"a\"}]",
        "{\"body\":{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"a\"}]}]},\"metadata\":{\"saved_by\":\"x\"}}",
        "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":"
        "\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"1\",\"content\":\"4\"}]}"};
    for (size_t i = 0; i < 3; i++) add(files[i], strlen(files[i]));
}

/* ---- a table: its template up to the first zero byte, then the file */

static const char *read_rows(struct table *t, struct input *in)
{
    struct input_line line = {0};
    struct err e = {0};
    struct out o = {0};
    const char *why = NULL;
    int rc = input_next(in, &line, &e);
    if (rc < 0) return fuzz_wrong_error(&e);
    if (!rc) return NULL;
    if (table_take_header(t, &line, "in.csv", &e)) return fuzz_wrong_error(&e);
    for (int k = 0; !why && k < 200 && (rc = input_next(in, &line, &e)); k++) {
        out_clear(&o);
        if (rc < 0 || table_read_row(t, &line, &e) ||
            (!line.bad && table_put_row(&o, t, ',', line.row, line.n_row, &e))) {
            why = fuzz_wrong_error(&e);
            break;
        }
        if (line.bad ? !*line.bad : !line.text) why = "a row that is neither bad nor a prompt";
        if (!why && o.n && memchr(o.p, '\n', o.n)) why = "a row of several lines";
    }
    out_free(&o);
    return why;
}

const char *fuzz_run_table(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n ? memchr(data, 0, n) : NULL;
    struct table *t;
    struct input *in;
    struct err e = {0};
    if (!cut) return NULL;
    if (table_open(&t, (const char *)data, ',', &e)) return fuzz_wrong_error(&e);
    const char *why = NULL, *path = fuzz_file(0, cut + 1, n - (size_t)(cut - data) - 1);
    if (input_open(&in, path, NULL, &e)) {
        why = fuzz_wrong_error(&e);
    } else {
        if (input_check_text(in, &e) || input_rewind(in, &e)) why = fuzz_wrong_error(&e);
        input_take_rows(in, ',');
        if (!why) why = read_rows(t, in);
        input_close(in);
    }
    table_close(t);
    return why;
}

void fuzz_seeds_table(fuzz_add *add)
{
    static const char a[] = "Q: {a} {{b}}\0id,a,b\n1,x,y\r\n2,\"q\"\"q\",\"l1\nl2\"\n",
                      b[] = "{text}\0text\nplain\n\"\"\n";
    add(a, sizeof a - 1);
    add(b, sizeof b - 1);
}
