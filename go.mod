module github.com/caudal-dev/caudal

go 1.26
