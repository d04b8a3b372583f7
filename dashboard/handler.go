package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
)

//go:embed page
var files embed.FS

// policy lets the page use what comes from where it came from itself, and nothing
// else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are those of the files; the system's own list is not asked.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", "": "text/plain; charset=utf-8",
}

// Handler serves the page at / and its parts below /dashboard/. They hold no
// figures: whoever may not read those sees an empty page that asks for the token.
func Handler() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		return http.NotFoundHandler() // cannot happen: the name is right
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveFile(page, "index.html"))
	_ = fs.WalkDir(page, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			mux.HandleFunc("GET /dashboard/"+name, serveFile(page, name))
		}
		return err
	})
	return mux
}

func serveFile(page fs.FS, name string) http.HandlerFunc {
	text, err := fs.ReadFile(page, name)
	return func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // an upgrade shows at once
		_, _ = w.Write(text)               // a client that has gone needs no answer
	}
}
