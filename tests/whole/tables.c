/* tables.c: tables as the input of a batch: the prompts that a template makes of rows are those of
 * the same JSON lines, whatever is quoted; rows with answers are read back by a reader of its own;
 * gzip, streams, kills; refusals before anything runs and by row. Works on models/demo; usage:
 * tables BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-tables-XXXXXX", model[300], in[300], lines_in[300],
                          out[300], out2[300];

#define RUN(p, input, ...)                                                                         \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "-t", "1", "-c", "200", "-n", "6", "-i", input,   \
                           __VA_ARGS__, NULL},                                                     \
                NULL)
#define TEMPLATE "--prompt-template"

static void remove_outputs(void) { shell_code("rm -f %s* %s*", out, out2); }

static void name_files(const char *ending)
{
    snprintf(in, sizeof in, "%s/in.%s", dir, ending);
    snprintf(out, sizeof out, "%s/out.%s", dir, ending);
}

/* ---- the same as JSON lines */

struct row {
    const char *id, *prompt; /* prompt NULL: the row is refused */
};
struct table_case {
    const char *ending, *text, *template;
    struct row rows[6];
};
static const struct table_case cases[] = {
    {"csv", "a,b\n1,2\n3,4\n", "{b} and {a}", {{"1", "2 and 1"}, {"2", "4 and 3"}}},
    {"csv",
     "\xef\xbb\xbf"
     "a,b\r\n1,2\r\n3,4",
     "{a}{{{b}}}",
     {{"1", "1{2}"}, {"2", "3{4}"}}},
    {"csv", "\xef\xbb\xbf\"a\",b\n\"x\",y\n", "{a}!", {{"1", "x!"}}},
    {"csv",
     "q\n\"one, \"\"two\"\"\nthree\"\n\"\"\"\"\n",
     "Q {q}",
     {{"1", "Q one, \"two\"\nthree"}, {"2", "Q \""}}},
    {"csv", "id,q\nx,one\n,two\nx,three\n", "{q}", {{"x", "one"}, {"2", "two"}, {"x", "three"}}},
    {"csv", "id,q,custom_id\nx,one,y\n", "{q}{id}", {{"y", "onex"}}},
    {"csv", "q,r\n\none,\n\n,two\n", "<{q}|{r}>", {{"1", "<one|>"}, {"2", "<|two>"}}},
    {"csv",
     "q,r\none,1\nonly\ntwo,2,3\n\"a\"b,4\nlast,5\n",
     "{q}",
     {{"1", "one"}, {"2", NULL}, {"3", NULL}, {"4", NULL}, {"5", "last"}}},
    {"csv",
     "q,\"two words\"\n5\" pipe,\"a\r\nb\"\n",
     "{q} {two words}",
     {{"1", "5\" pipe a\r\nb"}}},
    {"csv",
     "q,r\nb,c\nb,d\nb,e\na,\xff\nb,f\n",
     "{q}",
     {{"1", "b"}, {"2", "b"}, {"3", "b"}, {"4", NULL}, {"5", "b"}}},
    {"csv", "q,r\n\xc3\xa9,{q}\n", "{q} {r}", {{"1", "\xc3\xa9 {q}"}}},
    {"tsv", "q\tr\na,b\t\"c\td\"\n\tx\n", "{q};{r}", {{"1", "a,b;c\td"}, {"2", ";x"}}},
    {"tsv", "q\tr\n\t\n", "e{q}{r}", {{"1", "e"}}},
};

/* The rows as JSON lines for completions or chats; a refused one is a line of another kind. */
static void write_lines(const struct row *rows, int chat)
{
    FILE *f = fopen(lines_in, "w");
    if (!f) exit(2);
    for (int i = 0; i < 6 && rows[i].id; i++) {
        const char *prompt = rows[i].prompt ? rows[i].prompt : "";
        json_t *body = chat ? json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content",
                                        prompt)
                            : json_pack("{s:s}", "prompt", prompt),
               *line = json_pack("{s:s, s:s, s:o}", "custom_id", rows[i].id, "url",
                                 chat ? "/v1/chat/completions" : "/v1/completions", "body", body);
        json_dumpf(line, f, JSON_COMPACT);
        fprintf(f, "\n");
        json_decref(line);
    }
    fclose(f);
}

static json_t *next_line(const char **at)
{
    json_t *line = json_loads(*at, JSON_DISABLE_EOF_CHECK, NULL);
    *at = strchr(*at, '\n') ? strchr(*at, '\n') + 1 : *at + strlen(*at);
    return line;
}

static const json_t *error_of(const json_t *line)
{
    return json_object_get(json_object_get(line, "error"), "message");
}

/* Answers to rows and to the lines that say the same. */
static void compare(const struct table_case *c, const char *a, const char *b)
{
    char row[40];
    for (int i = 0; i < 6 && c->rows[i].id; i++) {
        json_t *x = next_line(&a), *y = next_line(&b);
        const char *msg = json_string_value(error_of(x));
        snprintf(row, sizeof row, "row %d: ", i + 1);
        if (c->rows[i].prompt)
            check_that(x && json_equal(x, y), "%s%s is \"%s\"", c->text, row, c->rows[i].prompt);
        else check_that(msg && !strncmp(msg, row, strlen(row)), "%s%s%s", c->text, row, msg);
        json_decref(x);
        json_decref(y);
    }
    check_that(!*a, "%s: no row more", c->text);
}

static void like_lines(int chat)
{
    static char template_file[300];
    struct process p, q;
    snprintf(template_file, sizeof template_file, "%s/chat.jinja", dir);
    const char *text = "[{{ messages[0].role }}] {{ messages[0].content }}";
    write_file(template_file, text, strlen(text));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += chat ? 4 : 1) {
        const struct table_case *c = &cases[i];
        name_files(c->ending);
        write_file(in, c->text, strlen(c->text));
        write_lines(c->rows, chat);
        RUN(&p, in, TEMPLATE, (char *)c->template, "-o", "-", "--chat-template-file", template_file,
            chat ? "--chat" : NULL);
        RUN(&q, lines_in, "-o", "-", "--chat-template-file", template_file);
        check(p.code == 0 || p.code == 3, c->text, &p);
        compare(c, p.out, q.out);
        process_free(&p);
        process_free(&q);
    }
}

/* ---- rows with answers */

enum { MOST_CELLS = 8, CELL_BYTES = 400 };

/* The next row of a table: its cells; 0: none. */
static int read_row(const char **at, char separator, char cell[MOST_CELLS][CELL_BYTES])
{
    int n = 0, quoted = 0;
    size_t len = 0;
    const char *p = *at;
    if (!*p) return 0;
    for (;; p++) {
        if (quoted && *p == '"' && p[1] == '"') p++;
        else if (*p == '"') {
            quoted = !quoted;
            continue;
        }
        if (!quoted && (*p == separator || *p == '\n' || !*p)) {
            cell[n++][len] = 0;
            len = 0;
            if (*p != separator || n == MOST_CELLS) break;
            continue;
        }
        if (!*p) break;
        if (len + 1 < CELL_BYTES) cell[n][len++] = *p;
    }
    *at = *p ? p + 1 : p;
    return n;
}

static const char table_text[] =
    "id,q,answer\nr1,\"The heart, \"\"he\"\" said\",gold\nr2,\"a\nb\",\nr3,Once upon a time,"
    "\"x,y\"\nshort\nr5,\"\x10"
    "d\",\"\x10\"\n";
static const char *const expected[][3] = {{"r1", "The heart, \"he\" said", "gold"},
                                          {"r2", "a\nb", ""},
                                          {"r3", "Once upon a time", "x,y"},
                                          {"short", "", ""},
                                          {"r5",
                                           "\x10"
                                           "d",
                                           "\x10"}};
enum { N_EXPECTED = 5 };

static void check_answer(int i, char cell[MOST_CELLS][CELL_BYTES], const json_t *line)
{
    const json_t *body = json_object_get(json_object_get(line, "response"), "body"),
                 *choice = json_array_get(json_object_get(body, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text")),
               *why = json_string_value(json_object_get(choice, "finish_reason")),
               *error = json_string_value(error_of(line));
    for (int k = 0; k < 3; k++)
        check_that(!strcmp(cell[k], expected[i][k]), "row %d: cell %d is \"%s\"", i + 1, k,
                   cell[k]);
    check_that(!strcmp(cell[3], text ? text : "") && !strcmp(cell[4], why ? why : "") &&
                   !strcmp(cell[5], error ? error : ""),
               "row %d: \"%s\", %s, \"%s\"", i + 1, cell[3], cell[4], cell[5]);
}

static void answered_rows(char separator)
{
    char cell[MOST_CELLS][CELL_BYTES];
    struct process p, q;
    size_t n;
    name_files("csv");
    snprintf(out, sizeof out, "%s/out.%s", dir, separator == ',' ? "csv" : "tsv");
    write_file(in, table_text, strlen(table_text));
    RUN(&p, in, TEMPLATE, "{q} {answer}", "-o", out);
    check(p.code == 3 && strstr(p.err, "1 of them errors"), "a table of answers", &p);
    process_free(&p);
    RUN(&q, in, TEMPLATE, "{q} {answer}", "-o", "-");
    char *text = read_file(out, &n);
    const char *at = text ? text : "", *line_at = q.out;
    check_that(read_row(&at, separator, cell) == 6 && !strcmp(cell[2], "answer") &&
                   !strcmp(cell[3], "answer_2") && !strcmp(cell[4], "finish_reason") &&
                   !strcmp(cell[5], "error"),
               "the header: %s, %s", cell[2], cell[3]);
    for (int i = 0; i < N_EXPECTED; i++) {
        json_t *line = next_line(&line_at);
        check_that(read_row(&at, separator, cell) == 6, "row %d has six cells", i + 1);
        check_answer(i, cell, line);
        json_decref(line);
    }
    check_that(!*at, "nothing behind the rows");
    free(text);
    process_free(&q);
    RUN(&p, in, TEMPLATE, "{q} {answer}", "-o", out);
    check(p.code == 3 && strstr(p.err, "is complete"), "nothing is left to do", &p);
    process_free(&p);
    RUN(&p, in, TEMPLATE, "{q}", "-o", out);
    check(p.code == 1 && strstr(p.err, "--prompt-template"), "another template", &p);
    process_free(&p);
    remove_outputs();
}

static void reasoning(void)
{
    struct process p;
    char cell[MOST_CELLS][CELL_BYTES], file[300];
    const char *text = "{{ messages[0].content }}<think>\n";
    snprintf(file, sizeof file, "%s/think.jinja", dir);
    write_file(file, text, strlen(text));
    name_files("csv");
    write_file(in, "q\na\n", 4);
    RUN(&p, in, TEMPLATE, "{q}", "-o", "-", "--format", "csv", "--chat", "--chat-template-file",
        file, "--reasoning-parser", "think");
    const char *at = p.out;
    check(read_row(&at, ',', cell) == 5 && !strcmp(cell[1], "answer") &&
              !strcmp(cell[2], "reasoning") && read_row(&at, ',', cell) == 5 && !*cell[1] &&
              *cell[2] && !strcmp(cell[3], "length"),
          "reasoning has a column", &p);
    process_free(&p);
}

/* ---- ways to compute */

static void write_many(int n)
{
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    fprintf(f, "id,q\n");
    for (int i = 0; i < n; i++)
        fprintf(f, i % 7 == 3 ? "k%d\n" : "k%d,\"Once upon\na time %d\"\n", i, i);
    fclose(f);
}

#define MANY TEMPLATE, "{q}, {id}", "-n", "16"
static void ways(void)
{
    struct process p;
    char packed[310], packed_out[310];
    name_files("csv");
    write_many(40);
    RUN(&p, in, MANY, "-o", out);
    check(p.code == 3, "40 rows", &p);
    process_free(&p);
    snprintf(packed, sizeof packed, "%s.gz", in);
    snprintf(packed_out, sizeof packed_out, "%s.gz", out);
    shell_code("gzip -k %s", in);
    RUN(&p, packed, MANY, "-o", packed_out, "-np", "3");
    process_free(&p);
    shell_ok("gzip -dc %s | cmp - %s", packed_out, out);
    RUN(&p, in, MANY, "-o", "-", "--format", "csv", "-b", "20");
    write_file(out2, p.out, p.out_bytes);
    check(same_file(out, out2), "to stdout", &p);
    process_free(&p);
    shell_ok("%s -m %s -t 1 -c 200 -n 16 -i - --input-format csv " TEMPLATE
             " '{q}, {id}' -o - --format csv <%s 2>/dev/null | cmp - %s",
             run_bin, model, in, out);
    RUN(&p, in, MANY, "-o", packed_out, "--order", "done", "--format", "csv", "--restart");
    process_free(&p);
    shell_ok("gzip -dc %s | head -n 1 | grep -qx id,q,answer,finish_reason,error", packed_out);
    RUN(&p, in, MANY, "--check");
    check(p.code == 3 && strstr(p.out, "row 4 (4): row 4: has 1 cell, the header 2") &&
              strstr(p.out, "40 records, 6 would fail"),
          "--check", &p);
    process_free(&p);
    remove_outputs();
}

/* Killed when some answers are there, and continued: nothing is lost and nothing comes twice. */
static void killed(void)
{
    struct process p;
    char whole[310];
    name_files("csv");
    write_many(40);
    snprintf(whole, sizeof whole, "%s/whole.csv", dir);
    RUN(&p, in, MANY, "-o", whole);
    process_free(&p);
    for (int i = 1; i < 3; i++)
        shell_code("%s -m %s -t 1 -c 200 -i %s " TEMPLATE " '{q}, {id}' -n 16 -np 2 -o %s "
                   "2>/dev/null & p=$!; i=0; until [ $(grep -ac '^#r' %s.journal) -ge %d ] || "
                   "[ $((i += 1)) -gt 2000 ]; do sleep .005; done 2>/dev/null; kill -9 $p; "
                   "wait $p 2>/dev/null",
                   run_bin, model, in, out, out, 10 * i);
    RUN(&p, in, MANY, "-o", out);
    check(p.code == 3 && strstr(p.err, "continuing: ") && same_file(whole, out),
          "killed twice and continued", &p);
    process_free(&p);
    remove_outputs();
}

/* ---- refusals */

static void refused(const char *text, const char *template, const char *says, int code)
{
    struct process p;
    name_files("csv");
    write_file(in, text, strlen(text));
    RUN(&p, in, "-o", out, TEMPLATE, (char *)template);
    check(p.code == code && strstr(p.err, says) && lines(p.err) == 1 && access(out, F_OK), says,
          &p);
    process_free(&p);
}

static void usage(const char *says, char *const option[5])
{
    struct process p;
    RUN(&p, in, "-o", out, option[0], option[1], option[2], option[3], option[4]);
    check(p.code == 2 && strstr(p.err, says) && lines(p.err) == 1, says, &p);
    process_free(&p);
}

static void refusals(void)
{
    refused("a,b\n1,2\n", "{c}", "{c}: ", 1);
    refused("a,b\n1,2\n", "{c}", "has no such column, it has 'a', 'b'", 1);
    refused("a,b\n1,2\n", "{ a}", "{ a}: ", 1);
    refused("a,b,a\n1,2,3\n", "{b}", "columns 1 and 3 have the same name: 'a'", 1);
    refused("a,\"a\"\n1,2\n", "{a}", "columns 1 and 2 have the same name", 1);
    refused("", "{a}", "has no header", 1);
    refused("\n\n", "{a}", "has no header", 1);
    refused("a,b\n", "{a}", "has a header and no rows", 1);
    refused("a,b\n1,2\n3,\"4\n5,6\n", "{a}", "begins in line 3 opens a quote that nothing", 1);
    refused("\"a\"b\n1\n", "{a}", "the header has text behind a closing quote", 1);
    refused("a\n1\n", "{a", "--prompt-template: a { has no }", 2);
    refused("a\n1\n", "{a}}", "--prompt-template: a } stands alone", 2);
    refused("a\n1\n", "a {{a}}", "--prompt-template: names no column", 2);
    refused("a\n1\n", "", "--prompt-template: names no column", 2);
    usage("a table needs --prompt-template", (char *[5]){NULL});
    usage("--shard needs --format jsonl", (char *[5]){TEMPLATE, "{a}", "--shard", "0/2", NULL});
    snprintf(in, sizeof in, "%s/in.txt", dir);
    write_file(in, "a\n1\n", 4);
    usage("--prompt-template needs a table", (char *[5]){TEMPLATE, "{a}", NULL});
    usage("--format csv needs a table", (char *[5]){"--format", "csv", NULL});
    usage("a table of answers needs a table", (char *[5]){"-o", "answers.tsv", NULL});
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(lines_in, sizeof lines_in, "%s/lines.jsonl", dir);
    snprintf(out2, sizeof out2, "%s/second", dir);
    check(!shell_code("%s/opt4gptq-convert -q models/demo %s", argv[1], model), "convert", NULL);
    like_lines(0);
    like_lines(1);
    answered_rows(',');
    answered_rows('\t');
    reasoning();
    ways();
    killed();
    refusals();
    shell_code("rm -rf %s", dir);
    return report("tables");
}
