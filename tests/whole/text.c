/* text.c: what is printed is what was generated: prompt and answer, on the command line and in
 * batches, as text and as ids, are what the tokenizer decodes of all ids, with a tokenizer whose
 * decoder strips the space that begins a text. Works on tests/data; usage: text BUILD_DIR. */
#include "core/text/tokenizer.h"
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-text-XXXXXX";

static json_t *line_of(const char *text) { return json_loads(text, JSON_DISABLE_EOF_CHECK, NULL); }

static struct tokenizer *pieces;
static char pieces_model[300];

static void open_pieces(void)
{
    char path[300];
    size_t i;
    json_t *cases = json_load_file("tests/data/tokenizer-cases.json", JSON_ALLOW_NUL, NULL), *c;
    struct err e;
    json_array_foreach (cases, i, c) {
        const json_t *json = json_object_get(c, "json");
        if (strcmp(json_string_value(json_object_get(c, "name")), "llama2")) continue;
        struct tok_source src = {.json = json_string_value(json),
                                 .json_bytes = json_string_length(json)};
        shell_ok("mkdir %s/pieces && cp tests/data/gptq/llama/* %s/pieces", dir, dir);
        snprintf(path, sizeof path, "%s/pieces/tokenizer.json", dir);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(src.json, 1, src.json_bytes, f) != src.json_bytes || fclose(f)) exit(2);
        check(!tok_open(&pieces, &src, &e), "a SentencePiece-like tokenizer", NULL);
    }
    json_decref(cases);
    snprintf(pieces_model, sizeof pieces_model, "%s/pieces.safetensors", dir);
    shell_ok("%s -q %s/pieces %s", convert_bin, dir, pieces_model);
}

static void add_ids(struct tok_ids *to, const json_t *ids)
{
    size_t i;
    json_t *id;
    to->id = realloc(to->id, (to->n + json_array_size(ids) + 1) * sizeof *to->id);
    json_array_foreach (ids, i, id) to->id[to->n++] = (int32_t)json_integer_value(id);
}

/* What the answer to a record has to be, decoded from the ids that it reports. Returns 1 when the
 * answer begins with a space. */
static int check_choice(const json_t *body, const json_t *choice)
{
    int echo = json_is_true(json_object_get(body, "echo")),
        skip = !json_is_false(json_object_get(body, "skip_special_tokens")),
        stopped = json_is_string(json_object_get(choice, "stop_reason"));
    const json_t *prompt = json_object_get(body, "prompt"),
                 *l = json_object_get(choice, "logprobs");
    const char *text = json_string_value(json_object_get(choice, "text"));
    struct tok_ids ids = {0};
    struct err e;
    char *before, *all, expected[1000], joined[1000] = "";
    size_t n_before, n_all, i, offset = 0;
    json_t *token;
    add_ids(&ids, json_object_get(choice, "prompt_token_ids"));
    if (tok_decode(pieces, ids.id, ids.n, skip, &before, &n_before, &e)) exit(2);
    add_ids(&ids, json_object_get(choice, "token_ids"));
    if (tok_decode(pieces, ids.id, ids.n, skip, &all, &n_all, &e)) exit(2);
    int is_prefix = n_before <= n_all && !memcmp(all, before, n_before);
    if (echo && json_is_array(prompt)) snprintf(expected, sizeof expected, "%s", all);
    else
        snprintf(expected, sizeof expected, "%s%s", echo ? json_string_value(prompt) : "",
                 is_prefix ? all + n_before : "?");
    /* a stop string ends the text within a token */
    int ok = stopped ? !strncmp(expected, text, strlen(text)) : !strcmp(expected, text);
    if (!is_prefix && (!echo || !json_is_array(prompt))) ok = 1;
    check(ok, "a completion goes on where its prompt ends", NULL);
    if (!ok)
        printf("  %s\n  expected %s\n  got      %s\n",
               json_string_value(json_object_get(body, "user")), expected, text);
    json_array_foreach (json_object_get(l, "tokens"), i, token) {
        const char *s = json_string_value(token);
        check(json_integer_value(json_array_get(json_object_get(l, "text_offset"), i)) ==
                  (json_int_t)offset,
              "text_offset", NULL);
        for (const char *q = s; *q; q++) offset += (*q & 0xc0) != 0x80;
        if (*s != '<' || !strchr(s, 's')) strcat(joined, s); /* not <s>, </s> */
    }
    if (l && !json_is_null(l) && !stopped && skip && !strstr(joined, "\ufffd")) {
        check(!strcmp(joined, text), "the tokens' texts make the text", NULL);
        if (strcmp(joined, text))
            printf("  %s\n  tokens %s\n  text   %s\n",
                   json_string_value(json_object_get(body, "user")), joined, text);
    }
    int space = is_prefix && n_before && all[n_before] == ' ';
    tok_ids_free(&ids);
    free(before);
    free(all);
    return space;
}

/* answers of whole characters */
#define BIAS "\"logit_bias\":{\"259\":90,\"260\":90,\"288\":90,\"299\":90,\"306\":90},"

static void behind_prompts(void)
{
    static const char *const prompts[] = {"\"hello the world\"",
                                          "\"\"",
                                          "\" the\"",
                                          "\"the  \"",
                                          "\"\u65e5\u00e9\"",
                                          "[\"a\",\"the\"]",
                                          "[1,40,57]",
                                          "[40]",
                                          "[40,233,154]",
                                          "[40,233]",
                                          "[2,60,3]"};
    static const char *const others[] = {
        "",
        "\"echo\":true,",
        "\"echo\":true,\"logprobs\":2,",
        "\"logprobs\":0,\"n\":3,",
        "\"echo\":true,\"n\":2,\"logprobs\":1,\"skip_special_tokens\":false,",
        "\"stop\":[\" w\",\"h\",\" \"],\"echo\":true,",
        "\"stop\":\" \",\"include_stop_str_in_output\":true,",
        BIAS "\"echo\":true,\"logprobs\":3,",
        BIAS "\"n\":2,\"logprobs\":2,",
        "\"max_tokens\":0,\"echo\":true,\"logprobs\":1,",
        "\"add_special_tokens\":false,\"logprobs\":1,\"echo\":true,"};
    struct process p;
    char *input = NULL;
    size_t n_input;
    FILE *f = open_memstream(&input, &n_input);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            for (int seed = 0; seed < 6; seed++)
                fprintf(f,
                        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":%s,%s\"user\":\"%zu/%zu/"
                        "%d\",%s\"seed\":%d,\"temperature\":1,"
                        "\"return_token_ids\":true,\"ignore_eos\":true}}\n",
                        prompts[i], others[k], i, k, seed,
                        strstr(others[k], "max_tokens") ? "" : "\"max_tokens\":8,", seed);
    fclose(f);
    process_run(
        &p,
        (char *[]){run_bin, "-m", pieces_model, "-t", "1", "-i", "-", "-o", "-", "-np", "7", NULL},
        input);
    int spaces = 0, choices = 0;
    char *question = input, *answer = p.out;
    for (; question && *question && answer && *answer;
         question = strchr(question, '\n') + 1, answer = strchr(answer, '\n') + 1) {
        json_t *q = line_of(question), *a = line_of(answer), *body = json_object_get(q, "body"), *c;
        json_t *list = json_object_get(json_object_get(json_object_get(a, "response"), "body"),
                                       "choices");
        json_t *prompt = json_object_get(body, "prompt");
        int n = (int)json_array_size(list) /
                (json_is_array(prompt) && json_is_string(json_array_get(prompt, 0)) ? 2 : 1);
        size_t i;
        json_array_foreach (list, i, c) {
            json_t *own = json_copy(body);
            if (n < (int)json_array_size(list))
                json_object_set(own, "prompt", json_array_get(prompt, i / (size_t)n));
            spaces += check_choice(own, c);
            choices++;
            json_decref(own);
        }
        json_decref(q);
        json_decref(a);
    }
    check(choices > 500 && spaces > 10, "completions, some of which begin with a space", &p);
    process_free(&p);
    free(input);
}

static void read_ids(struct tok_ids *to, const char *line)
{
    char *end;
    for (;; line = end) {
        int32_t id = (int32_t)strtol(line, &end, 10);
        if (end == line) return;
        to->id = realloc(to->id, (to->n + 1) * sizeof *to->id);
        to->id[to->n++] = id;
    }
}

static int prints(const struct process *p, const char *before, const char *text, size_t n)
{
    size_t n_before = strlen(before);
    return p->out_bytes == n_before + n + 1 && !memcmp(p->out, before, n_before) &&
           !memcmp(p->out + n_before, text, n) && p->out[n_before + n] == '\n';
}

/* The same on the command line, and as lines of text. */
static void behind_a_prompt(void)
{
    static const char *const prompts[] = {"hello the world", "the  ", "<s> the", "1.2\n"};
    static const char *const ways[][6] = {{"-p"},
                                          {"-p", "--no-display-prompt"},
                                          {"--prompt-ids"},
                                          {"-i", "-", "-o", "-", "--format", "text"}};
    int spaces = 0;
    for (int i = 0; i < 96; i++) {
        const char *text = prompts[i % 4];
        char seed[12], list[400] = "";
        struct tok_ids prompt = {0};
        struct err e;
        if (tok_encode(pieces, text, strlen(text), 1, &prompt, &e)) exit(2);
        for (size_t k = 0; k < prompt.n; k++) sprintf(list + strlen(list), "%d ", prompt.id[k]);
        snprintf(seed, sizeof seed, "%d", i / 4);
        for (int w = 0; w < 4; w++) {
            char *argv[32] = {run_bin, "-m", pieces_model, "-t",     "1", "-n",
                              "6",     "-s", seed,         "--temp", "1", "--ignore-eos"},
                 *before, *all;
            int n = 12, lines = w == 3;
            for (int k = 0; k < 6 && ways[w][k]; k++) {
                argv[n++] = (char *)ways[w][k];
                if (k == 0 && !lines) argv[n++] = w == 2 ? list : (char *)text;
            }
            struct process as_text, as_ids;
            struct tok_ids ids = {0};
            size_t n_before, n_all;
            process_run(&as_text, argv, lines ? text : NULL);
            argv[n++] = "--format", argv[n++] = "ids";
            process_run(&as_ids, argv, lines ? text : NULL);
            read_ids(&ids, list);
            if (tok_decode(pieces, ids.id, ids.n, 1, &before, &n_before, &e)) exit(2);
            read_ids(&ids, as_ids.out);
            if (tok_decode(pieces, ids.id, ids.n, 1, &all, &n_all, &e)) exit(2);
            check(n_all >= n_before && !memcmp(all, before, n_before),
                  "a prompt of text ends with a whole character", NULL);
            /* what lines of text escape is not looked at here, and a line has no newline */
            if (!lines || (!strchr(text, '\n') && memchr(all, 0, n_all + 1) == all + n_all &&
                           !strpbrk(all, "\n\t\r\\")))
                check(prints(&as_text, w ? "" : text, all + n_before, n_all - n_before),
                      "an answer goes on where its prompt ends", &as_text);
            spaces += all[n_before] == ' ';
            tok_ids_free(&ids);
            free(before);
            free(all);
            process_free(&as_text);
            process_free(&as_ids);
        }
        tok_ids_free(&prompt);
    }
    check(spaces > 3, "answers that begin with a space", NULL);
    printf("%d answers on the command line that begin with a space\n", spaces);
}

/* Tools that a chat template does not render would be dropped without a word. */
static void tools(void)
{
    static const char *const templates[] = {
        "{{ messages[0].content }}",
        "{% if tools %}{{ tools | length }}{% endif %}{{ messages[0].content }}"};
    static const char *const lines =
        "{\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"the\"}],\"max_"
        "tokens\":1,"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}}\n"
        "{\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"the\"}],\"max_"
        "tokens\":1,"
        "\"tools\":[],\"chat_template_kwargs\":{\"nobody\":1}}}\n";
    for (int i = 0; i < 2; i++) {
        struct process p;
        char path[300];
        snprintf(path, sizeof path, "%s/template", dir);
        FILE *f = fopen(path, "w");
        if (!f || fputs(templates[i], f) < 0 || fclose(f)) exit(2);
        process_run(&p,
                    (char *[]){run_bin, "-m", pieces_model, "-t", "1", "-i", "-", "-o", "-",
                               "--chat-template-file", path, NULL},
                    lines);
        const char *message =
            "\"error\":{\"message\":\"tools: the model's chat template does not use "
            "tools\",\"type\":\"BadRequestError\",\"param\":\"tools\",\"code\":\"invalid_"
            "request\"}";
        const char *second = strchr(p.out, '\n');
        check(p.code == (i ? 0 : 3) && (strstr(p.out, message) == NULL) == i,
              "tools and a template without them", &p);
        check(second && strstr(second, "\"status_code\":200"),
              "no tools, and a variable that no template reads", &p);
        process_free(&p);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    open_pieces();
    behind_prompts();
    behind_a_prompt();
    tools();
    tok_close(pieces);
    shell_ok("rm -r %s", dir);
    return report("text");
}
